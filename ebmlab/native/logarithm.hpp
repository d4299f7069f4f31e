// log(x) of vectors, x from 2^-126, as n log(2) + log(m) with m from sqrt(1/2) to sqrt(2), and a polynomial in m - 1:
// that of Moshier's Cephes.

#pragma once

#include "vectors.hpp"

namespace {

// The error is below 2e-7 of the result, or 1e-7. Numbers must be finite.
inline Floats logarithm(Floats x) {
  const int32_t ROOT = 0x3f3504f3;  // the bits of sqrt(1/2)
  Ints bits = reinterpret_cast<Ints>(x), n = (bits - ROOT) >> 23;
  Floats m = reinterpret_cast<Floats>(bits - (n << 23)) - 1.f;
  Floats square = m * m, power = __builtin_convertvector(n, Floats);
  Floats p = 7.0376836292e-2f * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * square - 2.12194440e-4f * power - 0.5f * square;
  return (m + p) + 0.693359375f * power;
}

}  // namespace

// exp(x) of vectors, x <= 0, as 2^n exp(r) with |r| <= log(2) / 2, and a polynomial in r: that of Moshier's Cephes.

#pragma once

#include "vectors.hpp"

namespace {

// The relative error is below 1e-6 down to x = -87; of less it is 0, as of -inf. NaN stays NaN.
inline Floats exponential(Floats x) {
  const float LOG2_E = 1.44269504f, LOG_2 = 0.693359375f, REST = -2.12194440e-4f;  // log(2) = LOG_2 + REST
  const float ROUNDER = 0x1.8p23f + 127;  // a sum with it has no fraction, and n + 127 in its last bits
  Floats sum = LOG2_E * x + ROUNDER, n = sum - ROUNDER;
  Floats r = (x - LOG_2 * n) - REST * n;
  Floats p = 1.9875691500e-4f * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + (r + 1.f);
  Floats power = reinterpret_cast<Floats>(reinterpret_cast<Ints>(sum) << 23);  // 2^n
  return x < -87.f ? Floats{} : p * power;
}

}  // namespace

// Logistic functions of vectors, with relative errors below 1e-6, and draws of bits from their logits.

#pragma once

#include "exponential.hpp"
#include "random_words.hpp"

namespace {

typedef uint32_t Halves __attribute__((vector_size(BYTES), aligned(4), may_alias));  // of words

inline Floats minus_magnitude(Floats x) { return x < 0.f ? x : -x; }

// 1 / (1 + exp(-x)).
inline Floats sigmoid(Floats x) {
  Floats e = exponential(minus_magnitude(x));
  return (x < 0.f ? e : Floats{} + 1.f) / (1.f + e);
}

// log(1 + exp(x)) = max(x, 0) + log(1 + e) with e = exp(-|x|), and log(1 + e) = 2 artanh(e / (2 + e)) by its series.
inline Floats softplus(Floats x) {
  Floats e = exponential(minus_magnitude(x)), z = e / (2.f + e), square = z * z;
  Floats sum = square * (1 / 13.f) + 1 / 11.f;
  sum = sum * square + 1 / 9.f;
  sum = sum * square + 1 / 7.f;
  sum = sum * square + 1 / 5.f;
  sum = sum * square + 1 / 3.f;
  sum = sum * square + 1.f;
  return (x > 0.f ? x : Floats{}) + 2.f * z * sum;
}

// Bits, 0 or 1, that are drawn with P(1) = sigmoid(logits). The less likely value of a bit has probability e / (1 + e),
// which floating point holds however small it is, and is drawn by the middles of 2^31 equal intervals.
inline Floats coins(Floats logits, Words random) {
  Floats e = exponential(minus_magnitude(logits));
  Floats level = __builtin_convertvector(reinterpret_cast<Ints>(reinterpret_cast<Halves>(random) >> 1), Floats) + 0.5f;
  Floats likely = logits > 0.f ? Floats{} + 1.f : Floats{};
  return level < e / (1.f + e) * 0x1p31f ? 1.f - likely : likely;
}

}  // namespace

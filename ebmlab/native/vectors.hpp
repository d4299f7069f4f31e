// Vectors of the processor's width.

#pragma once

#include <cmath>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif

namespace {

typedef float Floats __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(BYTES), aligned(4), may_alias));
typedef uint64_t Words __attribute__((vector_size(BYTES), aligned(8), may_alias));

constexpr int64_t FLOATS = BYTES / 4, WORDS = BYTES / 8;  // of a vector

inline Floats load(const float* p) { return *reinterpret_cast<const Floats*>(p); }
inline void store(float* p, Floats v) { *reinterpret_cast<Floats*>(p) = v; }
inline Ints load(const int32_t* p) { return *reinterpret_cast<const Ints*>(p); }
inline void store(int32_t* p, Ints v) { *reinterpret_cast<Ints*>(p) = v; }
inline Words load(const uint64_t* p) { return *reinterpret_cast<const Words*>(p); }
inline void store(uint64_t* p, Words v) { *reinterpret_cast<Words*>(p) = v; }

// The first n numbers, and zeros; no memory beyond them is read.
inline Floats load_some(const float* p, int64_t n) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p));
#elif defined(__AVX2__)
  const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i wanted = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lanes);
  return reinterpret_cast<Floats>(_mm256_maskload_ps(p, wanted));
#else
  Floats out{};
  for (int64_t i = 0; i < n; ++i) out[i] = p[i];
  return out;
#endif
}

inline Floats all(float x) { return x - Floats{}; }  // nothing is left of the difference, as -0 - 0 = -0

inline Floats root(Floats x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm512_sqrt_ps(reinterpret_cast<__m512>(x)));
#elif defined(__AVX2__)
  return reinterpret_cast<Floats>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#else
  Floats out;
  for (int64_t i = 0; i < FLOATS; ++i) out[i] = std::sqrt(x[i]);
  return out;
#endif
}

typedef float Quarter __attribute__((vector_size(16), aligned(4), may_alias));

inline float sum(Floats v) {
  Quarter parts[FLOATS / 4];
  store(reinterpret_cast<float*>(parts), v);
  for (int64_t half = FLOATS / 8; half; half /= 2)
    for (int64_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  return (parts[0][0] + parts[0][2]) + (parts[0][1] + parts[0][3]);
}

// Four rows of four numbers are written as four columns.
inline void transpose(const float* p, int64_t by_row, float* to, int64_t to_by_row) {
  Quarter row[4];
  for (int64_t i = 0; i < 4; ++i) row[i] = *reinterpret_cast<const Quarter*>(p + i * by_row);
  auto put = [&](int64_t j, Quarter column) { *reinterpret_cast<Quarter*>(to + j * to_by_row) = column; };
  Quarter up = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
  Quarter down = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
  put(0, __builtin_shufflevector(up, down, 0, 1, 4, 5));
  put(1, __builtin_shufflevector(up, down, 2, 3, 6, 7));
  up = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7), down = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  put(2, __builtin_shufflevector(up, down, 0, 1, 4, 5));
  put(3, __builtin_shufflevector(up, down, 2, 3, 6, 7));
}

inline void transpose(const float* p, int64_t by_row, int64_t rows, int64_t columns, float* to, int64_t to_by_row) {
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) transpose(p + i * by_row + j, by_row, to + j * to_by_row + i, to_by_row);
    for (; j < columns; ++j)
      for (int64_t k = i; k < i + 4; ++k) to[j * to_by_row + k] = p[k * by_row + j];
  }
  for (; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) to[j * to_by_row + i] = p[i * by_row + j];
}

}  // namespace

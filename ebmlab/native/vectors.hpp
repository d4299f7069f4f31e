// Vectors of the processor's width.

#pragma once

#include <cstdint>

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

inline Floats all(float x) { return Floats{} + x; }

}  // namespace

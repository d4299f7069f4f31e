// What a step adds to the report of each chain, in one pass over memory: how far it has moved, and whether its law had
// numbers that are NaN. States are (chains, size).

#include "vectors.hpp"

namespace {

// Calls `take` with each vector of n numbers, whose end is filled up with zeros, and where it begins.
template <typename Take>
inline void for_vectors(int64_t n, Take take) {
  int64_t k = 0;
  for (; k + FLOATS <= n; k += FLOATS) take([k](const float* p) { return load(p + k); });
  if (k < n) take([k, n](const float* p) { return load_some(p + k, n - k); });
}

inline float distance(const float* now, const float* before, int64_t size) {
  Floats squares{};
  for_vectors(size, [&](auto read) {
    Floats moved = read(now) - read(before);
    squares += moved * moved;
  });
  return std::sqrt(sum(squares));
}

inline int64_t changes(const float* now, const float* before, int64_t size) {
  Ints found{};
  for_vectors(size, [&](auto read) { found -= read(now) != read(before); });
  int64_t count = 0;
  for (int64_t i = 0; i < FLOATS; ++i) count += found[i];
  return count;
}

inline bool has_nan(const float* numbers, int64_t size) {
  Ints found{};
  for_vectors(size, [&](auto read) {
    Floats v = read(numbers);
    found |= v != v;
  });
  bool any = false;
  for (int64_t i = 0; i < FLOATS; ++i) any |= found[i] != 0;
  return any;
}

}  // namespace

// Adds the Euclidean distance from `before` to `now`.
extern "C" void add_distances(const float* now, const float* before, int64_t chains, int64_t size, float* sum,
                              int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t b = 0; b < chains; ++b) sum[b] += distance(now + b * size, before + b * size, size);
}

// Adds the Euclidean lengths of moves (size, chains).
extern "C" void add_lengths(const float* moves, int64_t chains, int64_t size, float* sum, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t b = 0; b < chains / FLOATS * FLOATS; b += FLOATS) {
    Floats squares{};
    for (int64_t k = 0; k < size; ++k) {
      Floats moved = load(moves + k * chains + b);
      squares += moved * moved;
    }
    store(sum + b, load(sum + b) + root(squares));
  }
  for (int64_t b = chains / FLOATS * FLOATS; b < chains; ++b) {
    float squares = 0;
    for (int64_t k = 0; k < size; ++k) squares += moves[k * chains + b] * moves[k * chains + b];
    sum[b] += std::sqrt(squares);
  }
}

// Adds how many numbers differ.
extern "C" void add_changes(const float* now, const float* before, int64_t chains, int64_t size, float* sum, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t b = 0; b < chains; ++b) sum[b] += static_cast<float>(changes(now + b * size, before + b * size, size));
}

// Adds NaN where one of a chain's numbers is NaN.
extern "C" void add_nan(const float* numbers, int64_t chains, int64_t size, float* sum, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t b = 0; b < chains; ++b)
    if (has_nan(numbers + b * size, size)) sum[b] = NAN;
}

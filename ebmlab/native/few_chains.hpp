// What steps of a few chains on an RBM share: its parameters, and rows of its weights times vectors of all chains. The
// chains share each read of a row, which is what takes the time.

#pragma once

#include <algorithm>
#include <vector>

#include "logistic.hpp"

namespace {

// Sizes are whole vectors: units that are never 1 fill them up.
struct Rbm {
  const float* weight;  // (visible, hidden)
  const float *visible_bias, *hidden_bias;
  int64_t visible, hidden;
};

struct Chains {
  float* x;                   // (count, visible)
  double *acceptance, *hops;  // (count), to which is added
  int64_t count;
};

// So many numbers, 0 at first, that begin where a line of the cache does.
template <typename Number>
class Numbers {
  struct alignas(64) Line {
    Number numbers[64 / sizeof(Number)];
  };
  std::vector<Line> lines;

 public:
  explicit Numbers(int64_t count) : lines((count * sizeof(Number) + 63) / 64) {}
  Number& operator[](int64_t i) { return lines.data()->numbers[i]; }
};

// products[c][i] = visible_bias[i] + row i of the weights times vectors[c], for C vectors and `FLOATS` rows, a tile.
template <int64_t C>
inline void multiply(const Rbm& rbm, int64_t first, const float* const* vectors, float* const* products) {
  constexpr int64_t R = C == 1 ? 8 : FLOATS / 4;  // rows at once: their sums lie in registers
  for (int64_t i = 0; i < FLOATS; i += R) {
    const float* rows = rbm.weight + (first + i) * rbm.hidden;
    Floats sums[R][C] = {};
    for (int64_t j = 0; j < rbm.hidden; j += FLOATS) {
      Floats vector[C];
      for (int64_t c = 0; c < C; ++c) vector[c] = load(vectors[c] + j);
      for (int64_t r = 0; r < R; ++r) {
        Floats row = load(rows + r * rbm.hidden + j);
        for (int64_t c = 0; c < C; ++c) sums[r][c] += row * vector[c];
      }
    }
    for (int64_t c = 0; c < C; ++c)
      for (int64_t r = 0; r < R; ++r)
        products[c][first + i + r] = rbm.visible_bias[first + i + r] + sum(sums[r][c]);
  }
}

inline void multiply(const Rbm& rbm, int64_t first, const std::vector<const float*>& vectors,
                     const std::vector<float*>& products) {
  size_t c = 0, count = vectors.size();
  for (; c + 4 <= count; c += 4) multiply<4>(rbm, first, &vectors[c], &products[c]);
  for (; c + 2 <= count; c += 2) multiply<2>(rbm, first, &vectors[c], &products[c]);
  for (; c < count; ++c) multiply<1>(rbm, first, &vectors[c], &products[c]);
}

constexpr int64_t MOST = 32;  // chains of a group, whose states stay in the cache

// Shares out chains among threads.
template <typename Move>
inline void in_groups(const Chains& chains, int64_t threads, Move move) {
  int64_t size = std::min(MOST, (chains.count + threads - 1) / threads), groups = (chains.count + size - 1) / size;
#pragma omp parallel for num_threads(std::min(threads, groups)) if (threads > 1 && groups > 1)
  for (int64_t g = 0; g < groups; ++g) move(g * size, std::min(chains.count, (g + 1) * size));
}

}  // namespace

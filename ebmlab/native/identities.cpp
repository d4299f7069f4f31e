// At how many sites sequences differ: which are alike, and which is the nearest. A vector holds a site of as many
// sequences as it has bytes. Pairs that differ too much are left before their last site.

#include <algorithm>
#include <atomic>

#include "vectors.hpp"

namespace {

typedef uint8_t Bytes __attribute__((vector_size(BYTES), aligned(1), may_alias));
typedef uint16_t Shorts __attribute__((vector_size(BYTES), may_alias));

constexpr int64_t WIDTH = 64, VECTORS = WIDTH / BYTES, ROWS = 8 / VECTORS;  // columns and rows of a tile
constexpr int64_t STRETCH = 32;                                             // sites after which pairs may be left

inline bool any(Words v) {
  uint64_t found = 0;
  for (int64_t i = 0; i < WORDS; ++i) found |= v[i];
  return found != 0;
}

// Calls `take` with the row, the column and the number of different sites of each pair with at most as many as its row
// allows. `tile` (sites, WIDTH) holds the columns.
template <typename Take>
inline void compare(const uint8_t* const* rows, const uint8_t* tile, int64_t sites, const uint16_t* allowed, Take take) {
  Shorts even[ROWS][VECTORS] = {}, odd[ROWS][VECTORS] = {};  // columns
  for (int64_t begin = 0; begin < sites; begin += STRETCH) {
    Bytes different[ROWS][VECTORS] = {};
    for (int64_t s = begin; s < std::min(begin + STRETCH, sites); ++s) {
      Bytes columns[VECTORS];
#pragma GCC unroll 4
      for (int64_t v = 0; v < VECTORS; ++v)
        columns[v] = *reinterpret_cast<const Bytes*>(tile + s * WIDTH + v * BYTES);
#pragma GCC unroll 4
      for (int64_t r = 0; r < ROWS; ++r) {
        const Bytes own = rows[r][s] - Bytes{};
#pragma GCC unroll 4
        for (int64_t v = 0; v < VECTORS; ++v) different[r][v] -= reinterpret_cast<Bytes>(columns[v] != own);
      }
    }
    Shorts within{};
#pragma GCC unroll 4
    for (int64_t r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
      for (int64_t v = 0; v < VECTORS; ++v) {
        const Shorts both = reinterpret_cast<Shorts>(different[r][v]);
        even[r][v] += both & 255, odd[r][v] += both >> 8;
        within |= reinterpret_cast<Shorts>(even[r][v] <= allowed[r]) | reinterpret_cast<Shorts>(odd[r][v] <= allowed[r]);
      }
    if (!any(reinterpret_cast<Words>(within))) return;
  }
  for (int64_t r = 0; r < ROWS; ++r)
    for (int64_t v = 0; v < VECTORS; ++v)
      for (int64_t k = 0; k < BYTES; ++k) {
        const uint16_t count = (k % 2 ? odd : even)[r][v][k / 2];
        if (count <= allowed[r]) take(r, v * BYTES + k, count);
      }
}

using Shared = std::atomic<int64_t>;

// The least number of a group, whose members lead to lower numbers.
inline int64_t root(const Shared* parents, int64_t i) {
  while (true) {
    const int64_t next = parents[i].load(std::memory_order_relaxed);
    if (next == i) return i;
    i = next;
  }
}

inline void join(Shared* parents, int64_t i, int64_t j) {
  while (true) {
    i = root(parents, i), j = root(parents, j);
    if (i == j) return;
    if (i < j) std::swap(i, j);
    int64_t own = i;
    if (parents[i].compare_exchange_weak(own, j)) return;
  }
}

}  // namespace

// Which of the rows from `first` to `last` are alike to later ones. `rows` (size, sites) are the sequences, and `tiles`
// (size / WIDTH, sites, WIDTH) hold them as columns. Pairs that differ at most at `allowed` (size) sites are alike. If
// `least` is no null pointer, they must also agree at `least[n]` sites, n being those at which not both have a gap, which
// is `gap` in the rows and another value in the tiles. Adds 1 to `counts` (size) of both, and joins their groups in
// `parents` (size).
extern "C" void find_alike(const uint8_t* rows, const uint8_t* tiles, int64_t size, int64_t sites,
                           const uint16_t* allowed, const int64_t* least, int gap, int64_t first, int64_t last,
                           Shared* counts, Shared* parents, int threads) {
#pragma omp parallel for schedule(dynamic, 4) num_threads(threads) if (threads > 1)
  for (int64_t j = first / WIDTH * WIDTH; j < size; j += WIDTH)
    for (int64_t i = first; i < std::min(last, j + WIDTH); i += ROWS) {
      const uint8_t* own[ROWS];
      uint16_t most[ROWS];
      for (int64_t r = 0; r < ROWS; ++r) {
        const int64_t row = std::min(i + r, last - 1);
        own[r] = rows + row * sites, most[r] = allowed[row];
      }
      compare(own, tiles + j * sites, sites, most, [&](int64_t r, int64_t k, int64_t different) {
        const int64_t row = i + r, column = j + k;
        if (row >= last || column <= row || column >= size) return;
        if (least) {
          const uint8_t *x = rows + row * sites, *y = rows + column * sites;
          int64_t both = 0;
          for (int64_t s = 0; s < sites; ++s) both += x[s] == gap && y[s] == gap;
          if (sites - different < least[sites - both]) return;
        }
        counts[row].fetch_add(1, std::memory_order_relaxed);
        counts[column].fetch_add(1, std::memory_order_relaxed);
        join(parents, row, column);
      });
    }
}

// At how many sites each of `rows` (number, sites) differs from the nearest of `size` sequences in `tiles`: the least so
// far is in `nearest` (number).
extern "C" void find_nearest(const uint8_t* rows, int64_t number, const uint8_t* tiles, int64_t size, int64_t sites,
                             uint16_t* nearest, int threads) {
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (int64_t i = 0; i < number; i += ROWS) {
    const uint8_t* own[ROWS];
    uint16_t most[ROWS];
    for (int64_t r = 0; r < ROWS; ++r) {
      const int64_t row = std::min(i + r, number - 1);
      own[r] = rows + row * sites, most[r] = nearest[row];
    }
    for (int64_t j = 0; j < size; j += WIDTH)
      compare(own, tiles + j * sites, sites, most, [&](int64_t r, int64_t k, uint16_t different) {
        if (j + k < size) most[r] = std::min(most[r], different);
      });
    for (int64_t r = 0; r < std::min(ROWS, number - i); ++r) nearest[i + r] = most[r];
  }
}

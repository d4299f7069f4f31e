// What sweeps of chains by single sites have in common: couplings by rows, blocks of chains, uniform numbers.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "random_words.hpp"
#include "vectors.hpp"

namespace {

// Rows of the matrix J and h, in the order in which the sites are moved: no two of one colour interact.
struct Rows {
  int64_t sites, entries;
  const int64_t* order;    // the site of each row
  const int64_t* offsets;  // where the entries of each row begin
  const int64_t* others;   // the column of each entry
  const float* weights;    // the entries
  const float* fields;     // h of each row's site: a number, or one for each value

  int64_t end(int64_t row) const { return row + 1 < sites ? offsets[row + 1] : entries; }
};

// Chains of a table (sites, chains, numbers of a site) side by side.
struct Chains {
  float* first;
  int64_t by_site, by_chain, count;
  const float* factors;  // (count): of each chain's inverse temperatures
  float* finite;   // (count): gets a number that is NaN if a local field was
  int32_t* flips;  // (count): gets how many sites have changed in all sweeps, if it is wanted

  Chains part(int64_t begin, int64_t size) const {
    int64_t here = std::min(size, count - begin);
    int32_t* own_flips = flips ? flips + begin : nullptr;
    return {first + begin * by_chain, by_site, by_chain, here, factors + begin, finite + begin, own_flips};
  }
};

struct Betas {  // a sweep each
  const float* first;
  int64_t count;

  const float* begin() const { return first; }
  const float* end() const { return first + count; }
};

// Each block of chains has random numbers of its own, so that the number of threads changes nothing. A thread has memory
// for so many numbers of a block.
template <class Number, class Move>
void by_blocks(const Chains& chains, int64_t size, int64_t numbers, uint64_t seed, int threads, Move move) {
  const int64_t blocks = (chains.count + size - 1) / size;
  threads = static_cast<int>(std::min<int64_t>(threads, blocks));
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<Number> memory(numbers);
#pragma omp for schedule(dynamic)
    for (int64_t block = 0; block < blocks; ++block)
      move(chains.part(block * size, size), RandomWords(seed, block), memory.data());
  }
}

constexpr float UNIT = 0x1p31f;

// Each of the odd numbers below UNIT is as likely as the others: so the middle of each of 2^30 parts.
inline Floats uniform(RandomWords& random) {
  return __builtin_convertvector((reinterpret_cast<Ints>(random.next()) & INT32_MAX) | 1, Floats);
}

}  // namespace

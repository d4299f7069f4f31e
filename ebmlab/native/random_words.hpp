// Random words by xoshiro256++ (Blackman and Vigna, ACM Trans. Math. Softw. 47, 2021), a generator for each lane of a
// vector. Streams of one seed begin at different outputs of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).

#pragma once

#include "vectors.hpp"

namespace {

constexpr uint64_t GOLDEN = 0x9E3779B97F4A7C15u;

inline uint64_t split_mix(uint64_t state) {
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBu;
  return state ^ (state >> 31);
}

inline Words rotated(Words x, int left) { return (x << left) | (x >> (64 - left)); }

struct RandomWords {
  Words state[4];

  RandomWords(uint64_t seed, uint64_t stream) {
    uint64_t counter = split_mix(seed) + 4 * WORDS * stream * GOLDEN;
    for (Words& part : state)
      for (int64_t lane = 0; lane < WORDS; ++lane) part[lane] = split_mix(counter += GOLDEN);
  }

  Words next() {
    Words out = rotated(state[0] + state[3], 23) + state[0], shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotated(state[3], 45);
    return out;
  }
};

}  // namespace

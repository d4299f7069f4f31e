// Random numbers of independent draws, in blocks with a stream of random words each, whoever makes them.

#include <algorithm>

#include "logarithm.hpp"
#include "logistic.hpp"

namespace {

constexpr int64_t BLOCK = 4096;

// Fills `out` with what a draw makes of numbers `in`, or of none, a vector at once; each block has a copy of the draw.
template <typename Draw>
void fill(const float* in, float* out, int64_t count, uint64_t seed, int64_t threads, Draw first) {
  const int64_t blocks = (count + BLOCK - 1) / BLOCK;
#pragma omp parallel for num_threads(std::min(threads, blocks)) if (threads > 1 && blocks > 1)
  for (int64_t block = 0; block < blocks; ++block) {
    RandomWords random(seed, block);
    Draw draw = first;
    int64_t i = block * BLOCK, end = std::min(count, i + BLOCK);
    for (; i + FLOATS <= end; i += FLOATS) store(out + i, draw(random, in ? load(in + i) : Floats{}));
    if (i < end) {
      Floats rest = draw(random, in ? load_some(in + i, end - i) : Floats{});
      for (int64_t k = 0; i + k < end; ++k) out[i + k] = rest[k];
    }
  }
}

// Multiples of 2^-24 from 0 to 1, without 1.
Floats uniform(RandomWords& random) {
  Halves top = reinterpret_cast<Halves>(random.next()) >> 8;
  return __builtin_convertvector(reinterpret_cast<Ints>(top), Floats) * 0x1p-24f;
}

// Normal numbers as the coordinates of points in a plane (Box and Muller, Ann. Math. Stat. 29, 1958), of which a call
// gives one and the next call the other. An angle is at most an eighth of a turn from an axis, which two bits choose.
struct Normal {
  float std;
  Floats other;
  bool has_other = false;

  Floats operator()(RandomWords& random, Floats) {
    has_other = !has_other;
    if (!has_other) return other;
    Halves words = reinterpret_cast<Halves>(random.next());
    Floats level = __builtin_convertvector(reinterpret_cast<Ints>(words >> 1), Floats) + 0.5f;
    Floats radius = std * root(-2.f * logarithm(level * 0x1p-31f));
    Ints turn = reinterpret_cast<Ints>(random.next());
    Floats angle = __builtin_convertvector(turn >> 2, Floats) * (0.785398163f * 0x1p-29f);  // pi / 4
    Floats square = angle * angle, sine = 8.3321608736e-3f - 1.9515295891e-4f * square;
    sine = angle + angle * square * (sine * square - 1.6666654611e-1f);
    Floats cosine = 2.443315711809948e-5f * square - 1.388731625493765e-3f;
    cosine = 1.f - 0.5f * square + square * square * (cosine * square + 4.166664568298827e-2f);
    radius = (turn & 1) != 0 ? radius : -radius;
    other = radius * ((turn & 2) != 0 ? cosine : sine);
    return radius * ((turn & 2) != 0 ? sine : cosine);
  }
};

}  // namespace

extern "C" {

void normals(float* out, int64_t count, float std, uint64_t seed, int64_t threads) {
  fill(nullptr, out, count, seed, threads, Normal{std, {}});
}

void uniforms(float* out, int64_t count, uint64_t seed, int64_t threads) {
  fill(nullptr, out, count, seed, threads, [](RandomWords& random, Floats) { return uniform(random); });
}

// Bits with P(1) = p: 0 never gives 1, and 1 always does.
void bits(const float* p, float* out, int64_t count, uint64_t seed, int64_t threads) {
  fill(p, out, count, seed, threads,
       [](RandomWords& random, Floats p) { return uniform(random) < p ? Floats{} + 1.f : Floats{}; });
}

// Bits with P(1) = sigmoid(logits).
void bits_of_logits(const float* logits, float* out, int64_t count, uint64_t seed, int64_t threads) {
  fill(logits, out, count, seed, threads, [](RandomWords& random, Floats l) { return coins(l, random.next()); });
}

}

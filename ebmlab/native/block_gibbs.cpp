// Block Gibbs on an RBM (Liao et al. 2022, Alg. 5), all steps of a few chains. A step reads the weights once: a tile of
// rows gives the logits of the next visible units, and those that are drawn as 1 add their rows to the inputs of the
// next hidden units, while they are in the cache.

#include <algorithm>

#include "few_chains.hpp"

namespace {

struct Chain {
  float* x;
  Numbers<float> inputs, h;  // of the hidden units
  Numbers<float> logits;     // of the visible units
  double hops = 0;
  RandomWords random;

  Chain(const Rbm& rbm, float* x, RandomWords random)
      : x(x), inputs(rbm.hidden), h(rbm.hidden), logits(rbm.visible), random(random) {}
};

// Adds the rows of a tile whose bits are 1 to the inputs, four at once.
void add_rows(const Rbm& rbm, int64_t first, Chain& chain) {
  const float* rows[FLOATS];
  float* inputs = &chain.inputs[0];
  int64_t count = 0, k = 0, hidden = rbm.hidden;
  for (int64_t i = first; i < first + FLOATS; ++i) {
    rows[count] = rbm.weight + i * hidden;
    count += chain.x[i] == 1.f;
  }
  for (; k + 4 <= count; k += 4) {
    const float *a = rows[k], *b = rows[k + 1], *c = rows[k + 2], *d = rows[k + 3];
    for (int64_t j = 0; j < hidden; j += FLOATS)
      store(inputs + j, load(inputs + j) + ((load(a + j) + load(b + j)) + (load(c + j) + load(d + j))));
  }
  for (; k < count; ++k) {
    const float* row = rows[k];
    for (int64_t j = 0; j < hidden; j += FLOATS) store(inputs + j, load(inputs + j) + load(row + j));
  }
}

// H ~ p(h | x). What it has used becomes the bias, to which the rows of the next x are added.
void draw_hidden(const Rbm& rbm, Chain& chain) {
  for (int64_t j = 0; j < rbm.hidden; j += FLOATS) {
    store(&chain.h[j], coins(load(&chain.inputs[j]), chain.random.next()));
    store(&chain.inputs[j], load(rbm.hidden_bias + j));
  }
}

// The units of a tile of the next x ~ p(v | h).
void draw_visible(const Rbm& rbm, int64_t first, Chain& chain) {
  Floats before = load(chain.x + first), after = coins(load(&chain.logits[first]), chain.random.next());
  chain.hops += sum((after - before) * (after - before));
  store(chain.x + first, after);
  add_rows(rbm, first, chain);
}

}  // namespace

extern "C" void block_gibbs(const Rbm& rbm, const Chains& chains, int64_t steps, uint64_t seed, int64_t threads) {
  in_groups(chains, threads, [&](int64_t begin, int64_t end) {
    std::vector<Chain> group;
    for (int64_t c = begin; c < end; ++c) group.emplace_back(rbm, chains.x + c * rbm.visible, RandomWords(seed, c));
    std::vector<const float*> h;
    std::vector<float*> logits;
    for (Chain& chain : group) {
      h.push_back(&chain.h[0]);
      logits.push_back(&chain.logits[0]);
      std::copy(rbm.hidden_bias, rbm.hidden_bias + rbm.hidden, &chain.inputs[0]);
      for (int64_t i = 0; i < rbm.visible; i += FLOATS) add_rows(rbm, i, chain);
    }
    for (int64_t step = 0; step < steps; ++step) {
      for (Chain& chain : group) draw_hidden(rbm, chain);
      for (int64_t i = 0; i < rbm.visible; i += FLOATS) {
        multiply(rbm, i, h, logits);
        for (Chain& chain : group) draw_visible(rbm, i, chain);
      }
    }
    for (int64_t c = begin; c < end; ++c) {
      chains.acceptance[c] += steps;
      chains.hops[c] += group[c - begin].hops;
    }
  });
}

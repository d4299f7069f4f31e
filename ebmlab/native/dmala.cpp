// DMALA on an RBM (Zhang et al. 2022, Alg. 1, Eq. 3), all steps of a few chains. A step reads the weights once, to make
// the proposal at y from E[h | y]. The inputs of the hidden units at y differ from those at x by rows of the weights,
// those of the units that flip. They are summed in float64, in which millions of steps round less than one in float32.

#include <cmath>

#include "few_chains.hpp"

namespace {

struct Proposals {
  const float* still;  // the logits of flips where there is no gradient, -1 / (2 alpha) each
  float slope;         // 2 beta
};

// A state with what the next step needs there.
struct State {
  Numbers<float> bits;
  Numbers<float> logits;   // of flips
  Numbers<double> inputs;  // of the hidden units
  double free;             // the sum of softplus over the inputs
  double normaliser;       // the sum of softplus over the logits

  explicit State(const Rbm& rbm) : bits(rbm.visible), logits(rbm.visible), inputs(rbm.hidden) {}
};

// Sums numbers in float64.
struct Total {
  double parts[FLOATS] = {};

  void add(Floats v) {
    for (int64_t i = 0; i < FLOATS; ++i) parts[i] += v[i];
  }
  double value() const {
    double total = 0;
    for (double part : parts) total += part;
    return total;
  }
};

void add_row(const Rbm& rbm, int64_t i, double sign, State& state) {
  const float* row = rbm.weight + i * rbm.hidden;
  double* inputs = &state.inputs[0];
  for (int64_t j = 0; j < rbm.hidden; ++j) inputs[j] += sign * row[j];
}

struct Chain {
  State here, there;           // x, and the y that is proposed
  Numbers<float> means;        // E[h | y]
  Numbers<float> field;        // of the visible units, given them
  std::vector<int64_t> flips;  // from x to y
  double acceptance = 0, hops = 0;
  RandomWords random;

  // Puts y at the start.
  Chain(const Rbm& rbm, const float* start, RandomWords random)
      : here(rbm), there(rbm), means(rbm.hidden), field(rbm.visible), random(random) {
    flips.reserve(rbm.visible);
    std::copy(start, start + rbm.visible, &there.bits[0]);
    std::copy(rbm.hidden_bias, rbm.hidden_bias + rbm.hidden, &there.inputs[0]);
    for (int64_t i = 0; i < rbm.visible; ++i)
      if (start[i] == 1.f) add_row(rbm, i, 1, there);
  }
};

// What follows from the inputs of the hidden units at y.
void average(const Rbm& rbm, Chain& chain) {
  State& there = chain.there;
  Total free;
  for (int64_t j = 0; j < rbm.hidden; j += FLOATS) {
    float inputs[FLOATS];
    for (int64_t k = 0; k < FLOATS; ++k) inputs[k] = there.inputs[j + k];
    store(&chain.means[j], sigmoid(load(inputs)));
    free.add(softplus(load(inputs)));
  }
  there.free = free.value();
}

// The proposal at y (Eq. 2), by the field.
void guide(const Rbm& rbm, const Proposals& proposals, Chain& chain) {
  State& there = chain.there;
  Total normaliser;
  for (int64_t i = 0; i < rbm.visible; i += FLOATS) {
    Floats rise = (0.5f - load(&there.bits[i])) * load(&chain.field[i]);
    Floats logits = load(proposals.still + i) + proposals.slope * rise;
    store(&there.logits[i], logits);
    normaliser.add(softplus(logits));
  }
  there.normaliser = normaliser.value();
}

// Draws y from q( . | x).
void propose(const Rbm& rbm, Chain& chain) {
  State &here = chain.here, &there = chain.there;
  chain.flips.clear();
  for (int64_t i = 0; i < rbm.visible; i += FLOATS) {
    Floats flips = coins(load(&here.logits[i]), chain.random.next()), before = load(&here.bits[i]);
    store(&there.bits[i], before + flips - 2.f * before * flips);
    for (int64_t k = 0; k < FLOATS; ++k)
      if (flips[k] == 1.f) chain.flips.push_back(i + k);
  }
  std::copy(&here.inputs[0], &here.inputs[0] + rbm.hidden, &there.inputs[0]);
  for (int64_t i : chain.flips) add_row(rbm, i, there.bits[i] - here.bits[i], there);
}

// Accepts y with min(1, p(y) q(x | y) / (p(x) q(y | x))) (Eq. 3).
void decide(const Rbm& rbm, Chain& chain) {
  State &here = chain.here, &there = chain.there;
  double ratio = there.free - here.free + here.normaliser - there.normaliser;
  for (int64_t i : chain.flips) {
    ratio += double(there.logits[i]) - here.logits[i];
    ratio += double(rbm.visible_bias[i]) * (there.bits[i] - here.bits[i]);
  }
  double probability = std::exp(std::min(ratio, 0.0));
  chain.acceptance += probability;
  if ((chain.random.next()[0] >> 11) * 0x1p-53 < probability) {
    std::swap(here, there);
    chain.hops += chain.flips.size();
  }
}

}  // namespace

extern "C" void dmala(const Rbm& rbm, const Chains& chains, const float* still, float slope, int64_t steps,
                      uint64_t seed, int64_t threads) {
  const Proposals proposals{still, slope};
  in_groups(chains, threads, [&](int64_t begin, int64_t end) {
    std::vector<Chain> group;
    for (int64_t c = begin; c < end; ++c) group.emplace_back(rbm, chains.x + c * rbm.visible, RandomWords(seed, c));
    std::vector<const float*> means;
    std::vector<float*> fields;
    for (Chain& chain : group) {
      means.push_back(&chain.means[0]);
      fields.push_back(&chain.field[0]);
    }
    auto evaluate = [&] {
      for (Chain& chain : group) average(rbm, chain);
      for (int64_t i = 0; i < rbm.visible; i += FLOATS) multiply(rbm, i, means, fields);
      for (Chain& chain : group) guide(rbm, proposals, chain);
    };
    evaluate();
    for (Chain& chain : group) std::swap(chain.here, chain.there);
    for (int64_t step = 0; step < steps; ++step) {
      for (Chain& chain : group) propose(rbm, chain);
      evaluate();
      for (Chain& chain : group) decide(rbm, chain);
    }
    for (int64_t c = begin; c < end; ++c) {
      Chain& chain = group[c - begin];
      std::copy(&chain.here.bits[0], &chain.here.bits[0] + rbm.visible, chains.x + c * rbm.visible);
      chains.acceptance[c] += chain.acceptance;
      chains.hops[c] += chain.hops;
    }
  });
}

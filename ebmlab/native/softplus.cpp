// Sums of log(1 + exp(x)) along rows, and the derivatives 1 / (1 + exp(-x)) of its terms, in one pass.

#include <algorithm>

#include "logarithm.hpp"
#include "logistic.hpp"

namespace {

constexpr int64_t FACTORS = 96;  // numbers from 1 to 2, whose product float32 holds

// The terms are max(x, 0), which are added up, and log(1 + exp(-|x|)), of which 1 + exp(-|x|) are multiplied.
struct Terms {
  Floats sum{}, product = all(1.f);
  int64_t factors = 0;

  Floats add(Floats x) {
    Floats e = exponential(minus_magnitude(x)), factor = 1.f + e;
    sum += x < 0.f ? Floats{} : x;  // NaN stays
    product *= factor;
    if (++factors % FACTORS == 0) {
      sum += logarithm(product);
      product = all(1.f);
    }
    return (x < 0.f ? e : all(1.f)) / factor;
  }
  float total() const { return ::sum(sum + logarithm(product)); }
};

template <bool means>
float sum_of_row(const float* x, int64_t count, float* out) {
  Terms terms;
  int64_t j = 0;
  for (; j + FLOATS <= count; j += FLOATS) {
    Floats mean = terms.add(load(x + j));
    if (means) store(out + j, mean);
  }
  if (j < count) {
    Floats rest = all(-INFINITY);
    for (int64_t k = 0; j + k < count; ++k) rest[k] = x[j + k];
    Floats mean = terms.add(rest);
    if (means)
      for (int64_t k = 0; j + k < count; ++k) out[j + k] = mean[k];
  }
  return terms.total();
}

}  // namespace

// Of `rows` rows of `count` numbers, `stride` apart. `means` (rows, count) gets the derivatives, unless it is null.
extern "C" void softplus_sums(const float* x, int64_t stride, int64_t rows, int64_t count, float* sums, float* means,
                              int64_t threads) {
#pragma omp parallel for num_threads(std::min(threads, rows)) if (threads > 1 && rows > 1)
  for (int64_t i = 0; i < rows; ++i)
    sums[i] = means ? sum_of_row<true>(x + i * stride, count, means + i * count)
                    : sum_of_row<false>(x + i * stride, count, nullptr);
}

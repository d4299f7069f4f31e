// 5x5 convolutions of stride 2 on images padded by zeros, and the gradient in the images. Outputs at an edge may have
// kernels of their own.
//
// Images are (count, colours, height, width), outputs (count, down, across, channels) with half of the image's height and
// width, rounded up. The channels fill whole vectors. Every output is computed in the same order of operations, wherever
// it stands.

#include <algorithm>
#include <vector>

#include "vectors.hpp"

namespace {

constexpr int64_t SIDE = 5, EDGE = SIDE / 2;
constexpr int64_t OUTPUTS = FLOATS > 8 ? 8 : 6;  // at once, whose sums of two vectors fit into the registers
constexpr int64_t PATCHES = 2;                   // the same for gradients, whose sums are a patch's rows

struct Sizes {
  int64_t count, colours, height, width, channels;
  int64_t down() const { return (height + 1) / 2; }
  int64_t across() const { return (width + 1) / 2; }
  int64_t taps() const { return colours * SIDE * SIDE; }
  int64_t padded_width() const { return width + 2 * EDGE + FLOATS; }  // a row of a patch is a whole vector
  int64_t padded_area() const { return (height + 2 * EDGE) * padded_width(); }
  int64_t padded_row(int64_t row) const {  // where one of the rows of all colours begins
    return row / height * padded_area() + (row % height + EDGE) * padded_width() + EDGE;
  }
};

struct Kinds {  // of the outputs of each row and of each column
  const int32_t *of_row, *of_column;
  int64_t columns;
  int64_t at(int64_t row, int64_t column) const { return of_row[row] * columns + of_column[column]; }
  int64_t end(const Sizes& s, int64_t column) const {  // of the outputs of this kind
    int64_t next = column;
    while (next < s.across() && of_column[next] == of_column[column]) ++next;
    return next;
  }
};

// N outputs that stand side by side, Q vectors of channels of each.
template <int64_t N, int64_t Q>
inline void convolve_some(const float* patch, const std::vector<int64_t>& places, const float* weights,
                          const float* bias, int64_t channels, float* out) {
  Floats sum[N][Q];
  for (int64_t n = 0; n < N; ++n)
    for (int64_t q = 0; q < Q; ++q) sum[n][q] = load(bias + q * FLOATS);
  for (int64_t place : places) {
    Floats factor[Q];
    for (int64_t q = 0; q < Q; ++q) factor[q] = load(weights + q * FLOATS);
    weights += channels;
    for (int64_t n = 0; n < N; ++n) {
      Floats one = all(patch[place + 2 * n]);
      for (int64_t q = 0; q < Q; ++q) sum[n][q] += one * factor[q];
    }
  }
#pragma GCC unroll 16
  for (int64_t n = 0; n < N; ++n)
#pragma GCC unroll 2
    for (int64_t q = 0; q < Q; ++q) store(out + n * channels + q * FLOATS, sum[n][q]);
}

template <int64_t N, int64_t Q>
inline void convolve_row(const float* patch, const std::vector<int64_t>& places, const float* weights,
                         const float* bias, int64_t channels, int64_t outputs, float* out) {
  for (; outputs >= N; outputs -= N, patch += 2 * N, out += N * channels)
    convolve_some<N, Q>(patch, places, weights, bias, channels, out);
  if constexpr (N > 1) convolve_row<N / 2, Q>(patch, places, weights, bias, channels, outputs, out);
}

template <int64_t Q>
void convolve(const float* padded, const std::vector<int64_t>& places, const Sizes& s, const Kinds& kinds,
              const float* weights, const float* bias, float* out) {
  for (int64_t i = 0; i < s.down(); ++i)
    for (int64_t j = 0, end; j < s.across(); j = end) {
      end = kinds.end(s, j);
      int64_t kind = kinds.at(i, j);
      const float* patch = padded + 2 * (i * s.padded_width() + j);
      for (int64_t c = 0; c < s.channels; c += Q * FLOATS)
        convolve_row<OUTPUTS, Q>(patch, places, weights + kind * s.taps() * s.channels + c,
                                 bias + kind * s.channels + c, s.channels, end - j,
                                 out + (i * s.across() + j) * s.channels + c);
    }
}

// The gradient in N patches that stand side by side, of one colour. Weights are a row of a patch in each vector, (channels,
// all rows).
template <int64_t N>
inline void back_some(const float* grad, const float* weights, int64_t rows, int64_t channels, float* patch,
                      int64_t padded_width) {
  Floats sum[N][SIDE] = {};
  for (int64_t c = 0; c < channels; ++c) {
    Floats one[N];
    for (int64_t n = 0; n < N; ++n) one[n] = all(grad[n * channels + c]);
    for (int64_t r = 0; r < SIDE; ++r) {
      Floats factor = load(weights + (c * rows + r) * FLOATS);
      for (int64_t n = 0; n < N; ++n) sum[n][r] += one[n] * factor;
    }
  }
#pragma GCC unroll 2
  for (int64_t n = 0; n < N; ++n)
#pragma GCC unroll 5
    for (int64_t r = 0; r < SIDE; ++r) {
      float* to = patch + r * padded_width + 2 * n;
      store(to, load(to) + sum[n][r]);
    }
}

void back(const float* grad, const Sizes& s, const Kinds& kinds, const float* weights, float* padded) {
  const int64_t rows = s.colours * SIDE, width = s.padded_width();
  for (int64_t i = 0; i < s.down(); ++i)
    for (int64_t j = 0, end; j < s.across(); j = end) {
      end = kinds.end(s, j);
      const float* own = weights + kinds.at(i, j) * s.channels * rows * FLOATS;
      for (int64_t colour = 0; colour < s.colours; ++colour) {
        const float* from = grad + (i * s.across() + j) * s.channels;
        float* patch = padded + colour * s.padded_area() + 2 * (i * width + j);
        int64_t left = end - j;
        for (; left >= PATCHES; left -= PATCHES, from += PATCHES * s.channels, patch += 2 * PATCHES)
          back_some<PATCHES>(from, own + colour * SIDE * FLOATS, rows, s.channels, patch, width);
        for (; left; --left, from += s.channels, patch += 2)
          back_some<1>(from, own + colour * SIDE * FLOATS, rows, s.channels, patch, width);
      }
    }
}

}  // namespace

// Weights are (kinds, colours, 5, 5, channels), biases (kinds, channels).
extern "C" void forward(const float* image, int64_t count, int64_t colours, int64_t height, int64_t width,
                        int64_t channels, const int32_t* kind_of_row, const int32_t* kind_of_column,
                        int64_t kinds_of_columns, const float* weights, const float* bias, float* out, int threads) {
  const Sizes s{count, colours, height, width, channels};
  const Kinds kinds{kind_of_row, kind_of_column, kinds_of_columns};
  std::vector<int64_t> places;  // in a padded image, from a patch's first number on
  for (int64_t colour = 0; colour < colours; ++colour)
    for (int64_t i = 0; i < SIDE; ++i)
      for (int64_t j = 0; j < SIDE; ++j) places.push_back(colour * s.padded_area() + i * s.padded_width() + j);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<float> padded(colours * s.padded_area());
#pragma omp for schedule(static)
    for (int64_t b = 0; b < count; ++b) {
      for (int64_t row = 0; row < colours * height; ++row)
        std::copy_n(image + (b * colours * height + row) * width, width, padded.data() + s.padded_row(row));
      float* to = out + b * s.down() * s.across() * channels;
      if (channels % (2 * FLOATS) == 0)
        convolve<2>(padded.data(), places, s, kinds, weights, bias, to);
      else
        convolve<1>(padded.data(), places, s, kinds, weights, bias, to);
    }
  }
}

// Adds the gradient in the image to `sum`. Weights are (kinds, channels, colours, 5, FLOATS), with zeros behind each row of
// a kernel.
extern "C" void backward(const float* grad, int64_t count, int64_t colours, int64_t height, int64_t width,
                         int64_t channels, const int32_t* kind_of_row, const int32_t* kind_of_column,
                         int64_t kinds_of_columns, const float* weights, float* sum, int threads) {
  const Sizes s{count, colours, height, width, channels};
  const Kinds kinds{kind_of_row, kind_of_column, kinds_of_columns};
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    std::vector<float> padded(colours * s.padded_area());
#pragma omp for schedule(static)
    for (int64_t b = 0; b < count; ++b) {
      std::fill(padded.begin(), padded.end(), 0.f);
      back(grad + b * s.down() * s.across() * channels, s, kinds, weights, padded.data());
      for (int64_t row = 0; row < colours * height; ++row) {
        const float* one = padded.data() + s.padded_row(row);
        float* to = sum + (b * colours * height + row) * width;
        for (int64_t j = 0; j < width; ++j) to[j] += one[j];
      }
    }
  }
}

// Floats in a vector.
extern "C" int64_t lanes() { return FLOATS; }

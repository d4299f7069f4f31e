// 3x3 convolutions of stride 1 on images padded by zeros, by Winograd's minimal filtering F(4x4, 3x3) (Lavin and Gray
// 2016, arXiv:1509.09308, section 4.3). A tile d of 6x6 pixels and a filter g give 4x4 outputs
//   Y = A' [(G g G') * (B' d B)] A,
// where * multiplies number by number: 36 multiplications instead of 144 for each pair of channels. Summed over input
// channels, they are 36 products of matrices, one for each point of a tile. A block of tiles goes through all steps
// before the next block does, so that what lies between the steps stays in the processor's cache.
//
// Images are (count, height, width, channels). The channels fill whole vectors. Every tile is computed in the same order
// of operations, wherever it stands.

#include <algorithm>
#include <cstdlib>

#include "logistic.hpp"

namespace {

constexpr int64_t OUT = 4, IN = 6, POINTS = IN * IN;  // sides of a tile's outputs and inputs
constexpr int64_t BLOCK = 24;                         // tiles
constexpr int64_t ROWS = FLOATS > 8 ? 8 : 6;          // tiles of a product at once, whose sums fit into the registers
constexpr int64_t PAD = FLOATS;  // between matrices, or their rows would be in the same places of the cache

struct Images {
  int64_t count, height, width, channels;
  int64_t down() const { return (height + OUT - 1) / OUT; }  // tiles
  int64_t across() const { return (width + OUT - 1) / OUT; }
  int64_t tiles() const { return count * down() * across(); }
  int64_t offset(int64_t image, int64_t row, int64_t column) const {
    return ((image * height + row) * width + column) * channels;
  }
};

struct Place {  // of a tile's first output
  int64_t image, row, column;
  Place(const Images& s, int64_t tile)
      : image(tile / (s.down() * s.across())),
        row(tile / s.across() % s.down() * OUT),
        column(tile % s.across() * OUT) {}
};

struct Filters {
  const float* first;
  int64_t by_output, by_input, by_row, by_column;  // steps in memory
};

struct After {  // the convolution; null pointers: left out
  const float *bias, *plus, *times;
  float *out, *slope;
};

struct Matrices {  // one for each point: (rows, channels)
  int64_t channels, size;
  float* first;
  Matrices(int64_t rows, int64_t channels)
      : channels(channels),
        size(rows * channels + PAD),
        first(static_cast<float*>(std::aligned_alloc(64, POINTS * size * sizeof(float)))) {
    if (!first) std::abort();
  }
  Matrices(const Matrices&) = delete;
  ~Matrices() { std::free(first); }
  float* row(int64_t point, int64_t i) const { return first + point * size + i * channels; }
};

// B' d.
inline void transform_input(const Floats d[IN], Floats v[IN]) {
  Floats p = d[4] - 4.f * d[2], q = d[3] - 4.f * d[1], r = d[4] - d[2], s = 2.f * (d[3] - d[1]);
  v[0] = 4.f * d[0] - 5.f * d[2] + d[4];
  v[1] = p + q;
  v[2] = p - q;
  v[3] = r + s;
  v[4] = r - s;
  v[5] = 4.f * d[1] - 5.f * d[3] + d[5];
}

// G g.
inline void transform_filter(const Floats g[3], Floats u[IN]) {
  Floats p = g[0] + g[2], r = g[0] + 4.f * g[2], s = 2.f * g[1];
  u[0] = (1.f / 4) * g[0];
  u[1] = (-1.f / 6) * (p + g[1]);
  u[2] = (-1.f / 6) * (p - g[1]);
  u[3] = (1.f / 24) * (r + s);
  u[4] = (1.f / 24) * (r - s);
  u[5] = g[2];
}

// A' m.
inline void transform_output(const Floats m[IN], Floats y[OUT]) {
  Floats p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];
  y[0] = m[0] + p + r;
  y[1] = q + 2.f * s;
  y[2] = p + 4.f * r;
  y[3] = q + 8.f * s + m[5];
}

// Row `input` of the matrices, for all output channels.
void transform_filters(const Filters& f, int64_t input, const Matrices& u) {
  for (int64_t o = 0; o < u.channels; o += FLOATS) {
    const float* filter = f.first + input * f.by_input + o * f.by_output;
    Floats half[IN][3], g[3], column[IN], row[IN];
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t k = 0; k < FLOATS; ++k) g[i][k] = filter[i * f.by_row + j * f.by_column + k * f.by_output];
      transform_filter(g, column);
      for (int64_t i = 0; i < IN; ++i) half[i][j] = column[i];
    }
    for (int64_t i = 0; i < IN; ++i) {
      transform_filter(half[i], row);
      for (int64_t j = 0; j < IN; ++j) store(u.row(i * IN + j, input) + o, row[j]);
    }
  }
}

// A row of the matrices for each tile. What is read again and again is copied, for a store may change what a
// reference refers to, as far as the compiler knows.
void transform_inputs(const float* x, const Images& s, int64_t first, int64_t tiles, const Matrices& v) {
  static const float zeros[FLOATS] = {};
  for (int64_t t = 0; t < tiles; ++t) {
    Place at(s, first + t);
    const float* pixel[IN][IN];
    for (int64_t i = 0; i < IN; ++i) {
      int64_t down = at.row + i - 1;
      for (int64_t j = 0; j < IN; ++j) {
        int64_t across = at.column + j - 1;
        bool inside = down >= 0 && down < s.height && across >= 0 && across < s.width;
        pixel[i][j] = inside ? x + s.offset(at.image, down, across) : nullptr;
      }
    }
    const int64_t channels = s.channels, size = v.size;
    float* to = v.row(0, t);
    for (int64_t c = 0; c < channels; c += FLOATS, to += FLOATS) {
      Floats half[IN][IN], d[IN], column[IN], row[IN];
      for (int64_t j = 0; j < IN; ++j) {
#pragma GCC unroll 6
        for (int64_t i = 0; i < IN; ++i) d[i] = load(pixel[i][j] ? pixel[i][j] + c : zeros);
        transform_input(d, column);
#pragma GCC unroll 6
        for (int64_t i = 0; i < IN; ++i) half[i][j] = column[i];
      }
#pragma GCC unroll 6
      for (int64_t i = 0; i < IN; ++i) {
        transform_input(half[i], row);
        for (int64_t j = 0; j < IN; ++j) store(to + (i * IN + j) * size, row[j]);
      }
    }
  }
}

// N rows and Q vectors of columns of a product, with u from these columns on. No more than the sums, Q vectors of u and
// one number of v has to be in a register.
template <int64_t N, int64_t Q>
inline void multiply_some(const float* v, const float* u, int64_t channels, float* out) {
  Floats sum[N][Q] = {};
  for (int64_t k = 0; k < channels; ++k) {
    Floats factor[Q];
    for (int64_t q = 0; q < Q; ++q) factor[q] = load(u + k * channels + q * FLOATS);
    for (int64_t n = 0; n < N; ++n) {
      Floats one = all(v[n * channels + k]);
      for (int64_t q = 0; q < Q; ++q) sum[n][q] += one * factor[q];
    }
  }
#pragma GCC unroll 16
  for (int64_t n = 0; n < N; ++n)
#pragma GCC unroll 2
    for (int64_t q = 0; q < Q; ++q) store(out + n * channels + q * FLOATS, sum[n][q]);
}

template <int64_t N, int64_t Q>
inline void multiply_rows(const float* v, const float* u, int64_t rows, int64_t channels, float* out) {
  for (; rows >= N; rows -= N, v += N * channels, out += N * channels) multiply_some<N, Q>(v, u, channels, out);
  if constexpr (N > 1) multiply_rows<N / 2, Q>(v, u, rows, channels, out);
}

template <int64_t Q>
void multiply(const Matrices& v, const Matrices& u, int64_t tiles, const Matrices& out) {
  for (int64_t p = 0; p < POINTS; ++p)
    for (int64_t o = 0; o < u.channels; o += Q * FLOATS)
      multiply_rows<ROWS, Q>(v.row(p, 0), u.row(p, 0) + o, tiles, u.channels, out.row(p, 0) + o);
}

// z sigmoid(z), and its derivative.
inline Floats swish(Floats z, float* slope) {
  Floats share = sigmoid(z), value = z * share;
  store(slope, share + value * (1.f - share));
  return value;
}

void transform_outputs(const Matrices& m, const Images s, int64_t first, int64_t tiles, const After after) {
  const int64_t size = m.size;
  for (int64_t t = 0; t < tiles; ++t) {
    Place at(s, first + t);
    const int64_t down = std::min(OUT, s.height - at.row), across = std::min(OUT, s.width - at.column);
    const float* from = m.row(0, t);
    for (int64_t c = 0; c < s.channels; c += FLOATS, from += FLOATS) {
      Floats half[OUT][IN], point[IN], y[OUT], bias = after.bias ? load(after.bias + c) : Floats{};
      for (int64_t j = 0; j < IN; ++j) {
#pragma GCC unroll 6
        for (int64_t i = 0; i < IN; ++i) point[i] = load(from + (i * IN + j) * size);
        transform_output(point, y);
#pragma GCC unroll 4
        for (int64_t i = 0; i < OUT; ++i) half[i][j] = y[i];
      }
      int64_t row = s.offset(at.image, at.row, at.column) + c;
      for (int64_t i = 0; i < down; ++i, row += s.width * s.channels) {
        transform_output(half[i], y);
        int64_t to = row;
        for (int64_t j = 0; j < across; ++j, to += s.channels) {
          Floats z = y[j] + bias;
          if (after.plus) z += load(after.plus + to);
          if (after.times) z *= load(after.times + to);
          store(after.out + to, after.slope ? swish(z, after.slope + to) : z);
        }
      }
    }
  }
}

}  // namespace

// The filters, over the images, plus a bias and `plus`, times `times`. With a slope, `out` is the swish of that, and
// `slope` the derivative of the swish.
extern "C" void convolve(const float* x, int64_t count, int64_t height, int64_t width, int64_t channels,
                         const float* filters, int64_t by_output, int64_t by_input, int64_t by_row, int64_t by_column,
                         const float* bias, const float* plus, const float* times, float* out, float* slope,
                         int threads) {
  Images s{count, height, width, channels};
  Filters f{filters, by_output, by_input, by_row, by_column};
  Matrices u(channels, channels);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    Matrices v(BLOCK, channels), m(BLOCK, channels);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < channels; ++i) transform_filters(f, i, u);
#pragma omp for schedule(static)
    for (int64_t t = 0; t < s.tiles(); t += BLOCK) {
      int64_t tiles = std::min(BLOCK, s.tiles() - t);
      transform_inputs(x, s, t, tiles, v);
      if (channels % (2 * FLOATS) == 0)
        multiply<2>(v, u, tiles, m);
      else
        multiply<1>(v, u, tiles, m);
      transform_outputs(m, s, t, tiles, {bias, plus, times, out, slope});
    }
  }
}

// The swish of z (size) and its derivative. The size is that of whole vectors.
extern "C" void activate(const float* z, int64_t size, float* out, float* slope, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t i = 0; i < size; i += FLOATS) store(out + i, swish(load(z + i), slope + i));
}

// Floats in a vector.
extern "C" int64_t lanes() { return FLOATS; }

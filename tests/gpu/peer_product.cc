#include "peer_product.h"

namespace glint::gpu {

namespace {

constexpr double kErrorMax = 5e-3;  // of bfloat16 results

std::vector<float> random_scales(int64_t count) {
  std::mt19937_64 random(static_cast<uint64_t>(count));
  std::vector<float> scales(static_cast<size_t>(count));
  for (float& scale : scales)
    scale = static_cast<float>(0.5 + static_cast<double>(random() % 1000) / 1000) / 256;
  return scales;
}

}  // namespace

PeerProduct::PeerProduct(PeerForm of, int64_t rows, int64_t out, int64_t in, cudaStream_t stream)
    : form(of),
      m(rows),
      n(out),
      k(in),
      copies_(static_cast<int>(std::max<int64_t>(2, kColdBytes / w_bytes()))),
      w_(w_bytes() * copies_),
      host_x_(static_cast<size_t>(m * k * (of == PeerForm::bf16 ? 2 : 1))),
      host_w_(static_cast<size_t>(w_bytes())),
      host_x_scales_(random_scales(of == PeerForm::fp8_rows ? m : m * (k / 128))),
      host_w_scales_(random_scales(of == PeerForm::fp8_rows ? n : (n / 128) * (k / 128))),
      x_scales_(host_x_scales_),
      w_scales_(host_w_scales_),
      y_(std::vector<uint16_t>(static_cast<size_t>(m * n))) {
  fill_weights(w_.data, w_bytes() * copies_,
               of == PeerForm::bf16 ? WeightFormat::bf16 : WeightFormat::fp8_block, stream);
  check(cudaStreamSynchronize(stream), "filling weights");
  check(cudaMemcpy(host_w_.data(), w_.data, host_w_.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::mt19937_64 random(1);
  parallel_random(m * k, random, [&](size_t first, size_t last, std::mt19937_64& own) {
    std::normal_distribution<float> normal;
    for (size_t i = first; i < last; ++i) {
      const float value = normal(own);
      if (form == PeerForm::bf16) {
        const uint16_t bits = float_to_bf16(value);
        std::memcpy(host_x_.data() + 2 * i, &bits, 2);
      } else {
        host_x_[i] = float_to_e4m3(60 * value);
      }
    }
  });
  x_ = std::make_unique<DeviceArray<uint8_t>>(host_x_);
}

void PeerProduct::poison() {
  check(cudaMemset(y_.data(), 0xFF, static_cast<size_t>(m * n * 2)), "cudaMemset");
  check(cudaDeviceSynchronize(), "poisoning");
}

double PeerProduct::x_value(int64_t row, int64_t col) const {
  const auto at = static_cast<size_t>(row * k + col);
  if (form == PeerForm::bf16)
    return static_cast<double>(bf16_to_float(load_unaligned<uint16_t>(host_x_.data() + 2 * at)));
  const int64_t scale = form == PeerForm::fp8_rows ? row : col / 128 * m + row;
  return static_cast<double>(e4m3_to_float(host_x_[at])) *
         static_cast<double>(host_x_scales_[static_cast<size_t>(scale)]);
}

double PeerProduct::w_value(int64_t row, int64_t col) const {
  const auto at = static_cast<size_t>(row * k + col);
  if (form == PeerForm::bf16)
    return static_cast<double>(bf16_to_float(load_unaligned<uint16_t>(host_w_.data() + 2 * at)));
  const int64_t scale = form == PeerForm::fp8_rows ? row : row / 128 * (k / 128) + col / 128;
  return static_cast<double>(e4m3_to_float(host_w_[at])) *
         static_cast<double>(host_w_scales_[static_cast<size_t>(scale)]);
}

double PeerProduct::error() const {
  constexpr int64_t kSamples = 1000;
  const std::vector<uint16_t> y = y_.host();
  std::mt19937_64 random(2);
  std::vector<int64_t> where(kSamples);
  for (int64_t& at : where) at = static_cast<int64_t>(random() % static_cast<uint64_t>(m * n));
  std::vector<float> found(kSamples);
  std::vector<double> expected(kSamples);
  parallel(kSamples, [&](int64_t i) {
    const int64_t at = where[static_cast<size_t>(i)];
    double sum = 0;
    for (int64_t c = 0; c < k; ++c) sum += x_value(at / n, c) * w_value(at % n, c);
    expected[static_cast<size_t>(i)] = sum;
    found[static_cast<size_t>(i)] = bf16_to_float(y[static_cast<size_t>(at)]);
  });
  return relative_error(found, expected);
}

void add_peer(Bench& bench, const std::string& name, PeerProduct& product,
              const std::function<void(int)>& run) {
  product.poison();
  run(0);
  check(cudaStreamSynchronize(bench.stream()), "a peer's product");
  const double error = product.error();
  if (!(error < kErrorMax)) {
    std::printf("%s: wrong: error %g\n", name.c_str(), error);
    return;
  }
  const bool few = product.m <= 64;
  const double us = bench.time_us([&](int i) { run(i % product.copies()); }, few ? 40 : 4);
  const auto elements = static_cast<double>(product.n * product.k);
  bench.add({name, us, few ? elements * (product.form == PeerForm::bf16 ? 2 : 1) : 0.0,
             few ? 0.0 : 2 * elements * static_cast<double>(product.m)});
}

}  // namespace glint::gpu

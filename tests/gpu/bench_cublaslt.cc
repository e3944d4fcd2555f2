// cuBLASLt beside our products. The library is this machine's own: it is large and never carried.
#include <cublasLt.h>
#include <dlfcn.h>

#include "bench_parts.h"
#include "peer_product.h"

namespace glint::gpu {

namespace {

class Library {
 public:
  Library() : handle_(dlopen("libcublasLt.so.13", RTLD_NOW)) {
    expect(handle_ != nullptr, "not there: ", dlerror());
  }
  template <class F>
  [[nodiscard]] F* find(const char* name) const {
    void* const address = dlsym(handle_, name);
    expect(address != nullptr, name, " is not in libcublasLt");
    return reinterpret_cast<F*>(address);
  }

 private:
  void* handle_;  // stays for as long as the process: it may have threads of its own
};

/// cuBLASLt's functions by their own names.
struct Lt {
  Library library;
  decltype(&cublasLtCreate) create = library.find<decltype(cublasLtCreate)>("cublasLtCreate");
  decltype(&cublasLtMatmulDescCreate) new_product =
      library.find<decltype(cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
  decltype(&cublasLtMatmulDescSetAttribute) set =
      library.find<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
  decltype(&cublasLtMatrixLayoutCreate) new_layout =
      library.find<decltype(cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
  decltype(&cublasLtMatmulPreferenceCreate) new_preference =
      library.find<decltype(cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
  decltype(&cublasLtMatmulPreferenceSetAttribute) prefer =
      library.find<decltype(cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose =
      library.find<decltype(cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
  decltype(&cublasLtMatmul) multiply = library.find<decltype(cublasLtMatmul)>("cublasLtMatmul");
};

void taken(cublasStatus_t status, const char* what) {
  expect(status == CUBLAS_STATUS_SUCCESS, what, ": status ", static_cast<int>(status));
}

constexpr size_t kWorkspace = size_t{64} << 20;

/// One product as cuBLASLt sees it: columns first, so W is its A (transposed) and x its B.
class LtProduct {
 public:
  LtProduct(const Lt& lt, cublasLtHandle_t handle, PeerProduct& product)
      : lt_(lt), handle_(handle), product_(product) {
    const cudaDataType_t type = product.form == PeerForm::bf16 ? CUDA_R_16BF : CUDA_R_8F_E4M3;
    taken(lt.new_product(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    if (product.form != PeerForm::bf16) {
      const bool rows = product.form == PeerForm::fp8_rows;
      set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
          rows ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
      set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
          rows ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
      set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.w_scales());
      set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.x_scales());
    }
    const auto n = static_cast<uint64_t>(product.n);
    const auto m = static_cast<uint64_t>(product.m);
    const auto k = static_cast<uint64_t>(product.k);
    taken(lt.new_layout(&w_, type, k, n, product.k), "describing W");
    taken(lt.new_layout(&x_, type, k, m, product.k), "describing x");
    taken(lt.new_layout(&y_, CUDA_R_16BF, n, m, product.n), "describing y");
    cublasLtMatmulPreference_t preference = nullptr;
    taken(lt.new_preference(&preference), "a preference");
    taken(lt.prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace, sizeof kWorkspace),
          "a preference");
    int found = 0;
    const cublasStatus_t status =
        lt.choose(handle, operation_, w_, x_, y_, y_, preference, 1, &chosen_, &found);
    expect(status == CUBLAS_STATUS_SUCCESS && found > 0, "not taken (status ", static_cast<int>(status), ")");
  }

  void run(int copy, void* workspace, cudaStream_t stream) const {
    const float one = 1;
    const float zero = 0;
    taken(lt_.multiply(handle_, operation_, &one, product_.w(copy), w_, product_.x(), x_, &zero, product_.y(),
                       y_, product_.y(), y_, &chosen_.algo, workspace, kWorkspace, stream),
          "multiplying");
  }

 private:
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    taken(lt_.set(operation_, attribute, &value, sizeof value), "an attribute");
  }

  const Lt& lt_;
  cublasLtHandle_t handle_;
  PeerProduct& product_;
  cublasLtMatmulDesc_t operation_ = nullptr;  // descriptions are few and end with the process
  cublasLtMatrixLayout_t w_ = nullptr, x_ = nullptr, y_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};
};

const char* name_of(PeerForm form) {
  switch (form) {
    case PeerForm::bf16:
      return "bf16";
    case PeerForm::fp8_blocks:
      return "fp8 blocks";
    case PeerForm::fp8_rows:
      return "fp8 rows";
  }
  return "";
}

}  // namespace

void bench_cublaslt(Bench& bench) {
  const Lt lt;
  cublasLtHandle_t handle = nullptr;
  taken(lt.create(&handle), "starting cuBLASLt");
  const Slab workspace(static_cast<int64_t>(kWorkspace));
  for (const PeerForm form : {PeerForm::bf16, PeerForm::fp8_blocks, PeerForm::fp8_rows}) {
    for (const PeerShape& shape : kPeerShapes) {
      for (const int64_t m : {1, 16, 4096}) {
        const std::string name = cat("cuBLASLt ", name_of(form), " ", shape.name, " M ", m);
        try {
          PeerProduct product(form, m, shape.rows, shape.cols, bench.stream());
          const LtProduct one(lt, handle, product);
          add_peer(bench, name, product, [&](int copy) { one.run(copy, workspace.data, bench.stream()); });
        } catch (const std::exception& error) {  // a form that this version does not take
          std::printf("%s: %s\n", name.c_str(), error.what());
        }
      }
    }
  }
}

}  // namespace glint::gpu

#ifndef STOWAGE_GPU_CUBLAS_LT_H_
#define STOWAGE_GPU_CUBLAS_LT_H_

// Matrix products by cuBLASLt, which is loaded when the program runs.
//
// The library's own handle (cublasHandle_t) is never used: it allocates on the
// device behind the caller's back. Here all scratch is the caller's. For each
// shape the library's first proposal that fits is taken and kept, so a product
// is computed in the same way every time. f32 is computed in f32, not in TF32;
// bf16 and f16 are summed in f32.
//
//   Result<std::unique_ptr<CublasLt>> lt = CublasLt::Load("");
//   (*lt)->Prepare(call, stream);
//   (*lt)->Run(call, stream);

#include <cublasLt.h>

#include <array>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "gpu/queue.h"

namespace stowage::gpu {

class CublasLt {
 public:
  /// Loads the library (see CublasLtPlaces for `given`) and opens it on the
  /// current device. Error kDevice.
  static Result<std::unique_ptr<CublasLt>> Load(const std::string& given);
  ~CublasLt();

  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 130100

  /// Chooses an algorithm for the call's shape, strides and alignment within its
  /// workspace, the first proposed that the library also runs, and runs it once;
  /// nothing when that was done. Error kDevice.
  Status Prepare(const MatMulCall& call, cudaStream_t stream);
  /// Precondition: prepared.
  Status Run(const MatMulCall& call, cudaStream_t stream);

 private:
  struct Functions;
  struct Product;  // a shape, and what is proposed for it
  using Key = std::array<int64_t, 19>;
  static Key KeyOf(const MatMulCall& call);

  CublasLt();
  Result<std::unique_ptr<Product>> Propose(const MatMulCall& call) const;
  Status Multiply(const Product& product, const MatMulCall& call,
                  cudaStream_t stream) const;

  std::unique_ptr<const Functions> functions_;
  std::string path_;
  int version_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, std::unique_ptr<Product>> products_;
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUBLAS_LT_H_

#ifndef STOWAGE_GPU_CUBLAS_LT_H_
#define STOWAGE_GPU_CUBLAS_LT_H_

// Provides CublasLt, which computes matmuls with cuBLASLt. The library is loaded at run time.
//
// The API with cublasHandle_t is not used, because it allocates memory on the device. With
// cuBLASLt, the caller provides all workspaces. An algorithm is chosen once for each shape, layout
// and alignment, and reused, so a matmul produces the same bits every time. With a folder
// (KeepAlgorithms), the fastest of the library's proposals is chosen, and later processes read the
// choice from the folder (gpu/matmul_algorithms.h). Without a folder, the first proposal that runs
// is chosen. f32 is computed in f32, not in TF32. bf16 and f16 are accumulated in f32. Epilogues
// are computed by the library, which lacks some of them for some shapes and alignments.
//
//   Result<std::unique_ptr<CublasLt>> lt = CublasLt::Load("");
//   (*lt)->KeepAlgorithms(folder, "NVIDIA H100 80GB HBM3");
//   (*lt)->Prepare(call, stream);
//   (*lt)->Run(call, stream);

#include <cublasLt.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gpu/matmul_algorithms.h"
#include "gpu/queue.h"

namespace stowage::gpu {

class CublasLt {
 public:
  /// Loads the library from one of the paths of PlacesOf(CublasLtLibrary(...), given)
  /// (gpu/device_checks.h), and creates a handle on the current device. Returns kDevice on failure.
  static Result<std::unique_ptr<CublasLt>> Load(const std::string& given);
  ~CublasLt();

  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 130100

  /// Enables timing for later calls of Prepare, and stores choices in `folder` for the device
  /// with this name. Propagates errors of MatMulAlgorithms::Open.
  Status KeepAlgorithms(const std::string& folder, std::string_view device);

  /// Chooses an algorithm for the shape, layout, epilogue and alignments of the call that fits in
  /// its workspace, and runs it once. Does nothing if the call is already prepared. Returns
  /// kUnsupported if the library lacks the epilogue, kInvalidArgument if a stored algorithm cannot
  /// run, and kDevice for other failures. Propagates errors of MatMulAlgorithms::Keep.
  Status Prepare(const MatMulCall& call, cudaStream_t stream);
  bool IsPrepared(const MatMulCall& call) const;
  /// Enqueues the matmul. The call must have been prepared.
  Status Run(const MatMulCall& call, cudaStream_t stream);

 private:
  struct Functions;
  struct PreparedMatMul;  // a shape and its algorithm
  static MatMulKey KeyOf(const MatMulCall& call);

  CublasLt();
  Result<std::unique_ptr<PreparedMatMul>> Describe(
      const MatMulCall& call) const;
  Status DescribeEpilogue(const PreparedMatMul& prepared,
                          const MatMulCall& call) const;
  // Sets the addresses of operands of the call's epilogue.
  Status SetEpilogueAddresses(const PreparedMatMul& prepared,
                              const MatMulCall& call) const;
  // Returns the library's proposals, best first. There is at least one.
  Result<std::vector<cublasLtMatmulAlgo_t>> Propose(
      const PreparedMatMul& prepared, const MatMulCall& call) const;
  // Checks that the library can still run a stored algorithm.
  Status CheckKept(const PreparedMatMul& prepared,
                   const cublasLtMatmulAlgo_t& algorithm,
                   const MatMulCall& call) const;
  // Returns the stored algorithm of the call. If there is none, times the proposals and stores the
  // fastest.
  Result<cublasLtMatmulAlgo_t> ChooseByTime(PreparedMatMul& prepared,
                                            const MatMulCall& call,
                                            cudaStream_t stream);
  // Returns the first proposal that runs.
  Result<cublasLtMatmulAlgo_t> ChooseFirst(PreparedMatMul& prepared,
                                           const MatMulCall& call,
                                           cudaStream_t stream) const;
  // Returns the shape with its algorithm, which has run once.
  Result<std::unique_ptr<PreparedMatMul>> Choose(const MatMulCall& call,
                                                 cudaStream_t stream);
  Status Multiply(const PreparedMatMul& prepared, const MatMulCall& call,
                  cudaStream_t stream) const;

  std::unique_ptr<const Functions> functions_;
  std::string path_;
  int version_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  std::map<MatMulKey, std::unique_ptr<PreparedMatMul>> matmuls_;
  std::map<MatMulKey, Error> refused_;          // unsupported calls
  std::optional<MatMulAlgorithms> algorithms_;  // the autotune cache, if any
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUBLAS_LT_H_

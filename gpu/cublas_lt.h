#ifndef STOWAGE_GPU_CUBLAS_LT_H_
#define STOWAGE_GPU_CUBLAS_LT_H_

// Matmuls by cuBLASLt, which is loaded when the program runs.
//
// cublasHandle_t is not used, since it allocates on the device; here all scratch is the
// caller's. One algorithm is chosen and kept for each shape, so a matmul has the same bits
// every time: with a folder, the fastest of the library's proposals, which later processes
// find there (gpu/matmul_algorithms.h); without one, the first that fits. f32 is computed in
// f32, not in TF32; bf16 and f16 are summed in f32. Epilogues are the library's, which lacks
// some for some shapes and alignments.
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
  /// Loads the library (see PlacesOf for `given`) and opens it on the
  /// current device. Error kDevice.
  static Result<std::unique_ptr<CublasLt>> Load(const std::string& given);
  ~CublasLt();

  const std::string& path() const { return path_; }
  int version() const { return version_; }  // 130100

  /// From now on, times algorithms and keeps the choices in `folder` for the device of that
  /// name. Errors: those of MatMulAlgorithms::Open.
  Status KeepAlgorithms(const std::string& folder, std::string_view device);

  /// Chooses an algorithm for the call's shape, strides and alignment that fits its
  /// workspace, and runs it; does nothing if that was done. Errors: kUnsupported for an
  /// epilogue that the library lacks; kDevice; those of MatMulAlgorithms::Keep;
  /// kInvalidArgument for a kept algorithm that cannot run.
  Status Prepare(const MatMulCall& call, cudaStream_t stream);
  bool IsPrepared(const MatMulCall& call) const;
  /// Precondition: prepared.
  Status Run(const MatMulCall& call, cudaStream_t stream);

 private:
  struct Functions;
  struct PreparedMatMul;  // a shape, and the algorithm for it
  static MatMulKey KeyOf(const MatMulCall& call);

  CublasLt();
  Result<std::unique_ptr<PreparedMatMul>> Describe(
      const MatMulCall& call) const;
  Status DescribeEpilogue(const PreparedMatMul& prepared,
                          const MatMulCall& call) const;
  // Sets the addresses of the call's epilogue.
  Status SetEpilogueAddresses(const PreparedMatMul& prepared,
                              const MatMulCall& call) const;
  // The library's proposals, the best first; at least one.
  Result<std::vector<cublasLtMatmulAlgo_t>> Propose(
      const PreparedMatMul& prepared, const MatMulCall& call) const;
  // Whether the library still runs an algorithm that was kept.
  Status CheckKept(const PreparedMatMul& prepared,
                   const cublasLtMatmulAlgo_t& algorithm,
                   const MatMulCall& call) const;
  // The kept algorithm of the call, or else the fastest, which is then kept.
  Result<cublasLtMatmulAlgo_t> ChooseByTime(PreparedMatMul& prepared,
                                            const MatMulCall& call,
                                            cudaStream_t stream);
  // The first proposal that runs.
  Result<cublasLtMatmulAlgo_t> ChooseFirst(PreparedMatMul& prepared,
                                           const MatMulCall& call,
                                           cudaStream_t stream) const;
  // The shape with its algorithm, which has run once.
  Result<std::unique_ptr<PreparedMatMul>> Choose(const MatMulCall& call,
                                                 cudaStream_t stream);
  Status Multiply(const PreparedMatMul& prepared, const MatMulCall& call,
                  cudaStream_t stream) const;

  std::unique_ptr<const Functions> functions_;
  std::string path_;
  int version_ = 0;
  cublasLtHandle_t handle_ = nullptr;
  std::map<MatMulKey, std::unique_ptr<PreparedMatMul>> matmuls_;
  std::map<MatMulKey, Error> refused_;          // what the library lacks
  std::optional<MatMulAlgorithms> algorithms_;  // where they are kept
};

}  // namespace stowage::gpu

#endif  // STOWAGE_GPU_CUBLAS_LT_H_

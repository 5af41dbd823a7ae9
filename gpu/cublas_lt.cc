#include "gpu/cublas_lt.h"

#include <cuda_runtime_api.h>

#include <bit>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/shared_library.h"
#include "base/strings.h"
#include "gpu/cuda_calls.h"
#include "gpu/device_checks.h"
#include "gpu/kernel.h"
#include "runtime/autotune_cache.h"

// The functions that are used, each looked up by its name.
#define STOWAGE_CUBLAS_LT(F)              \
  F(cublasLtCreate)                       \
  F(cublasLtDestroy)                      \
  F(cublasLtGetVersion)                   \
  F(cublasLtMatmul)                       \
  F(cublasLtMatmulAlgoCheck)              \
  F(cublasLtMatmulAlgoGetHeuristic)       \
  F(cublasLtMatmulDescCreate)             \
  F(cublasLtMatmulDescDestroy)            \
  F(cublasLtMatmulDescSetAttribute)       \
  F(cublasLtMatmulPreferenceCreate)       \
  F(cublasLtMatmulPreferenceDestroy)      \
  F(cublasLtMatmulPreferenceSetAttribute) \
  F(cublasLtMatrixLayoutCreate)           \
  F(cublasLtMatrixLayoutDestroy)          \
  F(cublasLtMatrixLayoutSetAttribute)

namespace stowage::gpu {
namespace {

// Proposals asked for. Where none is timed, the first is nearly always taken, and a
// later one only where the library refuses those before it.
constexpr int kProposals = 8;

// Runs of a matmul between two readings of the device's clock, which ticks about every half
// microsecond.
constexpr int kAlgorithmRuns = 3;

Error Fail(std::string_view message, ErrorCode code = ErrorCode::kDevice) {
  return {code, StrCat("[gpu] ", message)};
}

std::string NameOfCall(const MatMulCall& call) {
  return StrCat("product of ", call.batch, " x (", call.m, ", ", call.k,
                ") by (", call.k, ", ", call.n, ") in ", DTypeName(call.dtype));
}

Status Check(cublasStatus_t status, std::string_view what,
             const MatMulCall& call) {
  if (status == CUBLAS_STATUS_SUCCESS) return {};
  const bool lacks = status == CUBLAS_STATUS_NOT_SUPPORTED ||
                     status == CUBLAS_STATUS_INVALID_VALUE;
  return Fail(StrCat("cuBLASLt, status ", static_cast<int>(status), " from ",
                     what, ", ", NameOfCall(call)),
              lacks && call.epilogue.beyond_addend() ? ErrorCode::kUnsupported
                                                     : ErrorCode::kDevice);
}

cudaDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return CUDA_R_32F;
    case DType::kBF16:
      return CUDA_R_16BF;
    case DType::kF16:
      return CUDA_R_16F;
    default:
      STOWAGE_CHECK(false);
  }
}

// The alignment of an address, as far as it matters. It is the same for every slot, so the
// choice of an algorithm does not depend on the plan.
int64_t AlignmentOfAddress(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address);
  const auto most = static_cast<uintptr_t>(kSlotAlignment);
  return static_cast<int64_t>(bits % most == 0 ? most : bits & (~bits + 1));
}

// The library's epilogue for one vector. The library's matrices are the transposes of ours:
// our b is its A, our a its B.
struct VectorEpilogue {
  cublasLtEpilogue_t kind;
  const std::byte* vector;
};
std::optional<VectorEpilogue> VectorEpilogueOf(const MatMulEpilogue& epilogue) {
  if (epilogue.bias != nullptr) {
    return VectorEpilogue{CUBLASLT_EPILOGUE_BIAS, epilogue.bias};
  }
  if (epilogue.b_sums != nullptr) {
    return VectorEpilogue{CUBLASLT_EPILOGUE_BGRADA, epilogue.b_sums};
  }
  if (epilogue.a_sums != nullptr) {
    return VectorEpilogue{CUBLASLT_EPILOGUE_BGRADB, epilogue.a_sums};
  }
  return std::nullopt;
}

// The matrix that is added to the matmul, if any.
const std::byte* AddendOf(const MatMulCall& call) {
  return call.epilogue.addend != nullptr ? call.epilogue.addend : call.c;
}

// The epilogue as a number: whether c is accumulated, and for each operand and result of the
// epilogue whether it is present, and its alignment. 0 or 1 without an epilogue.
int64_t EpilogueKeyOf(const MatMulCall& call) {
  constexpr int kBits = 4;  // alignments are at most 2^8
  static_assert(kSlotAlignment <= 256);
  const MatMulEpilogue& epilogue = call.epilogue;
  int64_t key = 0;
  for (const std::byte* each :
       {const_cast<const std::byte*>(epilogue.a_sums),
        const_cast<const std::byte*>(epilogue.b_sums), epilogue.bias,
        epilogue.addend, epilogue.gelu_x}) {
    key <<= kBits;
    if (each == nullptr) continue;
    key +=
        1 + std::countr_zero(static_cast<uint64_t>(AlignmentOfAddress(each)));
  }
  return 2 * key + (call.accumulate ? 1 : 0);
}

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(MatMulAlgorithm));

}  // namespace

struct CublasLt::Functions {
#define STOWAGE_DECLARE(name) decltype(&::name) name = nullptr;
  STOWAGE_CUBLAS_LT(STOWAGE_DECLARE)
#undef STOWAGE_DECLARE
};

struct CublasLt::PreparedMatMul {
  explicit PreparedMatMul(const Functions& f) : functions(f) {}
  ~PreparedMatMul() {
    for (const cublasLtMatrixLayout_t layout : {a, b, c}) {
      if (layout != nullptr) functions.cublasLtMatrixLayoutDestroy(layout);
    }
    if (operation != nullptr) functions.cublasLtMatmulDescDestroy(operation);
  }

  const Functions& functions;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
};

CublasLt::CublasLt() = default;

CublasLt::~CublasLt() {
  matmuls_.clear();
  if (handle_ != nullptr) functions_->cublasLtDestroy(handle_);
}

Result<std::unique_ptr<CublasLt>> CublasLt::Load(const std::string& given) {
  STOWAGE_ASSIGN_OR_RETURN(const SharedLibrary library,
                           OpenCublasLt(CUBLAS_VER_MAJOR, given));
  auto functions = std::make_unique<Functions>();
#define STOWAGE_LOOK_UP(name)                                                 \
  functions->name = reinterpret_cast<decltype(&::name)>(library.Find(#name)); \
  if (functions->name == nullptr) {                                           \
    return Fail(StrCat(library.path, " is no cuBLASLt: it lacks ", #name));   \
  }
  STOWAGE_CUBLAS_LT(STOWAGE_LOOK_UP)
#undef STOWAGE_LOOK_UP

  std::unique_ptr<CublasLt> lt(new CublasLt);
  lt->path_ = library.path;
  lt->version_ = static_cast<int>(functions->cublasLtGetVersion());
  lt->functions_ = std::move(functions);
  STOWAGE_RETURN_IF_ERROR(
      CheckMatMulLibrary(lt->version_, CUBLAS_VER_MAJOR, lt->path_));
  if (const auto status = lt->functions_->cublasLtCreate(&lt->handle_);
      status != CUBLAS_STATUS_SUCCESS) {
    lt->handle_ = nullptr;
    return Fail(StrCat("cuBLASLt of ", lt->path_,
                       " cannot be used on this device: status ",
                       static_cast<int>(status), " from cublasLtCreate"));
  }
  return lt;
}

MatMulKey CublasLt::KeyOf(const MatMulCall& call) {
  return {static_cast<int64_t>(call.dtype),
          call.m,
          call.n,
          call.k,
          call.batch,
          call.a.stride,
          call.a.batch_stride,
          call.a.transposed,
          call.b.stride,
          call.b.batch_stride,
          call.b.transposed,
          call.c_stride,
          call.c_batch_stride,
          EpilogueKeyOf(call),
          call.workspace_bytes,
          AlignmentOfAddress(call.a.data),
          AlignmentOfAddress(call.b.data),
          AlignmentOfAddress(call.c),
          AlignmentOfAddress(call.workspace)};
}

// The library's matrices are column-major: a row-major (m, n) is its (n, m). So it computes
// c^T = b^T a^T, and b is its first operand.
Result<std::unique_ptr<CublasLt::PreparedMatMul>> CublasLt::Describe(
    const MatMulCall& call) const {
  const Functions& f = *functions_;
  auto prepared = std::make_unique<PreparedMatMul>(f);
  STOWAGE_RETURN_IF_ERROR(
      Check(f.cublasLtMatmulDescCreate(&prepared->operation, CUBLAS_COMPUTE_32F,
                                       CUDA_R_32F),
            "cublasLtMatmulDescCreate", call));
  const auto set_transposed = [&](cublasLtMatmulDescAttributes_t attribute,
                                  bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    return Check(f.cublasLtMatmulDescSetAttribute(
                     prepared->operation, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute", call);
  };
  STOWAGE_RETURN_IF_ERROR(
      set_transposed(CUBLASLT_MATMUL_DESC_TRANSA, call.b.transposed));
  STOWAGE_RETURN_IF_ERROR(
      set_transposed(CUBLASLT_MATMUL_DESC_TRANSB, call.a.transposed));

  // A matrix of `rows` rows of `columns` adjacent elements, as it is stored.
  const auto set_layout = [&](cublasLtMatrixLayout_t* layout, int64_t rows,
                              int64_t columns, int64_t stride,
                              int64_t batch_stride) -> Status {
    STOWAGE_RETURN_IF_ERROR(
        Check(f.cublasLtMatrixLayoutCreate(layout, TypeOf(call.dtype),
                                           static_cast<uint64_t>(columns),
                                           static_cast<uint64_t>(rows), stride),
              "cublasLtMatrixLayoutCreate", call));
    const auto batch = static_cast<int32_t>(call.batch);
    STOWAGE_RETURN_IF_ERROR(Check(
        f.cublasLtMatrixLayoutSetAttribute(
            *layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
        "cublasLtMatrixLayoutSetAttribute", call));
    return Check(f.cublasLtMatrixLayoutSetAttribute(
                     *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                     &batch_stride, sizeof(batch_stride)),
                 "cublasLtMatrixLayoutSetAttribute", call);
  };
  const bool at = call.a.transposed, bt = call.b.transposed;
  STOWAGE_RETURN_IF_ERROR(set_layout(&prepared->a, bt ? call.n : call.k,
                                     bt ? call.k : call.n, call.b.stride,
                                     call.b.batch_stride));
  STOWAGE_RETURN_IF_ERROR(set_layout(&prepared->b, at ? call.k : call.m,
                                     at ? call.m : call.k, call.a.stride,
                                     call.a.batch_stride));
  STOWAGE_RETURN_IF_ERROR(set_layout(&prepared->c, call.m, call.n,
                                     call.c_stride, call.c_batch_stride));
  STOWAGE_RETURN_IF_ERROR(DescribeEpilogue(*prepared, call));
  return prepared;
}

// The library's matrices are the transposes of ours, so its bias runs down its columns, which
// are our rows. It takes one vector.
Status CublasLt::DescribeEpilogue(const PreparedMatMul& prepared,
                                  const MatMulCall& call) const {
  const MatMulEpilogue& epilogue = call.epilogue;
  if (!call.epilogue.beyond_addend()) return {};
  const int kinds = (epilogue.bias != nullptr ? 1 : 0) +
                    (epilogue.gelu_x != nullptr ? 1 : 0) +
                    (epilogue.a_sums != nullptr ? 1 : 0) +
                    (epilogue.b_sums != nullptr ? 1 : 0);
  if (kinds > 1) {
    return Fail(
        StrCat("cuBLASLt has no epilogue that does two of these: adds a "
               "bias, takes gelu's derivative, sums a, sums b; for the ",
               NameOfCall(call)),
        ErrorCode::kUnsupported);
  }
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute,
                       const auto& value) {
    return Check(functions_->cublasLtMatmulDescSetAttribute(
                     prepared.operation, attribute, &value, sizeof(value)),
                 "cublasLtMatmulDescSetAttribute", call);
  };
  const std::optional<VectorEpilogue> of_vector = VectorEpilogueOf(epilogue);
  const cublasLtEpilogue_t kind =
      of_vector ? of_vector->kind : CUBLASLT_EPILOGUE_DGELU;
  STOWAGE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, kind));
  if (of_vector) {
    STOWAGE_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(call.dtype)));
  } else {
    STOWAGE_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, TypeOf(call.dtype)));
    STOWAGE_RETURN_IF_ERROR(
        set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, call.c_stride));
    STOWAGE_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                                call.c_batch_stride));
  }
  return SetEpilogueAddresses(prepared, call);
}

Status CublasLt::SetEpilogueAddresses(const PreparedMatMul& prepared,
                                      const MatMulCall& call) const {
  const std::optional<VectorEpilogue> of_vector =
      VectorEpilogueOf(call.epilogue);
  const std::pair<cublasLtMatmulDescAttributes_t, const std::byte*>
      addresses[] = {
          {CUBLASLT_MATMUL_DESC_BIAS_POINTER,
           of_vector ? of_vector->vector : nullptr},
          {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.epilogue.gelu_x}};
  for (const auto& [attribute, address] : addresses) {
    if (address == nullptr) continue;
    STOWAGE_RETURN_IF_ERROR(
        Check(functions_->cublasLtMatmulDescSetAttribute(
                  prepared.operation, attribute, &address, sizeof(address)),
              "cublasLtMatmulDescSetAttribute", call));
  }
  return {};
}

Result<std::vector<cublasLtMatmulAlgo_t>> CublasLt::Propose(
    const PreparedMatMul& prepared, const MatMulCall& call) const {
  const Functions& f = *functions_;
  cublasLtMatmulPreference_t preference = nullptr;
  STOWAGE_RETURN_IF_ERROR(Check(f.cublasLtMatmulPreferenceCreate(&preference),
                                "cublasLtMatmulPreferenceCreate", call));
  const auto workspace = static_cast<uint64_t>(call.workspace_bytes);
  auto status = f.cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
      sizeof(workspace));
  // An algorithm that cuts k adds its parts in f32, in the workspace. Others that
  // are on offer add them in the type of the result: in 16 bits.
  const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = f.cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
        sizeof(reductions));
  }
  const std::pair<cublasLtMatmulPreferenceAttributes_t, const void*>
      addresses[] = {
          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, call.b.data},
          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, call.a.data},
          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AddendOf(call)},
          {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, call.c},
      };
  for (const auto& [attribute, address] : addresses) {
    const auto alignment = static_cast<uint32_t>(AlignmentOfAddress(address));
    if (status != CUBLAS_STATUS_SUCCESS) break;
    status = f.cublasLtMatmulPreferenceSetAttribute(
        preference, attribute, &alignment, sizeof(alignment));
  }
  cublasLtMatmulHeuristicResult_t proposals[kProposals];
  int count = 0;
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = f.cublasLtMatmulAlgoGetHeuristic(
        handle_, prepared.operation, prepared.a, prepared.b, prepared.c,
        prepared.c, preference, kProposals, proposals, &count);
  }
  f.cublasLtMatmulPreferenceDestroy(preference);
  STOWAGE_RETURN_IF_ERROR(
      Check(status, "cublasLtMatmulAlgoGetHeuristic", call));
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    if (proposals[i].state != CUBLAS_STATUS_SUCCESS ||
        proposals[i].workspaceSize > workspace) {
      continue;
    }
    algorithms.push_back(proposals[i].algo);
  }
  if (!algorithms.empty()) return algorithms;
  return Fail(StrCat("cuBLASLt has no algorithm within ", call.workspace_bytes,
                     " bytes of scratch for the ", NameOfCall(call)),
              call.epilogue.beyond_addend() ? ErrorCode::kUnsupported
                                            : ErrorCode::kDevice);
}

Status CublasLt::KeepAlgorithms(const std::string& folder,
                                std::string_view device) {
  STOWAGE_ASSIGN_OR_RETURN(
      algorithms_,
      MatMulAlgorithms::Open(folder, device, StrCat("cuBLASLt ", version_)));
  return {};
}

Status CublasLt::CheckKept(const PreparedMatMul& prepared,
                           const cublasLtMatmulAlgo_t& algorithm,
                           const MatMulCall& call) const {
  cublasLtMatmulHeuristicResult_t result = {};
  const auto status = functions_->cublasLtMatmulAlgoCheck(
      handle_, prepared.operation, prepared.a, prepared.b, prepared.c,
      prepared.c, &algorithm, &result);
  if (status == CUBLAS_STATUS_SUCCESS &&
      result.workspaceSize <= static_cast<size_t>(call.workspace_bytes)) {
    return {};
  }
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[gpu] cuBLASLt cannot run the algorithm that ",
             Quoted(algorithms_->path()), " has for the ", NameOfCall(call),
             " (status ", static_cast<int>(status), ", ", result.workspaceSize,
             " of ", call.workspace_bytes,
             " bytes of scratch): remove the file to have products timed "
             "again, which may change the last bits of results")};
}

Result<cublasLtMatmulAlgo_t> CublasLt::ChooseByTime(PreparedMatMul& prepared,
                                                    const MatMulCall& call,
                                                    cudaStream_t stream) {
  const MatMulKey key = KeyOf(call);
  if (const std::optional<MatMulAlgorithm> kept = algorithms_->Find(key)) {
    const auto algorithm = std::bit_cast<cublasLtMatmulAlgo_t>(*kept);
    STOWAGE_RETURN_IF_ERROR(CheckKept(prepared, algorithm, call));
    return algorithm;
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> proposed,
                           Propose(prepared, call));
  CudaStopwatch stopwatch(stream);
  STOWAGE_ASSIGN_OR_RETURN(
      const size_t fastest,
      ChooseFastest(proposed.size(), [&](size_t i) -> Result<double> {
        prepared.algorithm = proposed[i];
        STOWAGE_RETURN_IF_ERROR(stopwatch.Begin());
        for (int run = 0; run < kAlgorithmRuns; ++run) {
          STOWAGE_RETURN_IF_ERROR(Multiply(prepared, call, stream));
        }
        return stopwatch.End();
      }));
  STOWAGE_ASSIGN_OR_RETURN(
      const MatMulAlgorithm kept,
      algorithms_->Keep(key,
                        std::bit_cast<MatMulAlgorithm>(proposed[fastest])));
  return std::bit_cast<cublasLtMatmulAlgo_t>(kept);
}

Result<cublasLtMatmulAlgo_t> CublasLt::ChooseFirst(PreparedMatMul& prepared,
                                                   const MatMulCall& call,
                                                   cudaStream_t stream) const {
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<cublasLtMatmulAlgo_t> proposed,
                           Propose(prepared, call));
  Status run;
  for (const cublasLtMatmulAlgo_t& algorithm : proposed) {
    prepared.algorithm = algorithm;
    run = Multiply(prepared, call, stream);
    if (run.ok()) return algorithm;
  }
  return run.error();
}

Status CublasLt::Prepare(const MatMulCall& call, cudaStream_t stream) {
  const MatMulKey key = KeyOf(call);
  if (matmuls_.contains(key)) return {};
  if (const auto refused = refused_.find(key); refused != refused_.end()) {
    return refused->second;
  }
  Result<std::unique_ptr<PreparedMatMul>> prepared = Choose(call, stream);
  if (!prepared.ok()) {
    if (prepared.error().code == ErrorCode::kUnsupported) {
      refused_.emplace(key, prepared.error());
    }
    return prepared.error();
  }
  matmuls_.emplace(key, *std::move(prepared));
  return {};
}

Result<std::unique_ptr<CublasLt::PreparedMatMul>> CublasLt::Choose(
    const MatMulCall& call, cudaStream_t stream) {
  STOWAGE_ASSIGN_OR_RETURN(std::unique_ptr<PreparedMatMul> prepared,
                           Describe(call));
  STOWAGE_ASSIGN_OR_RETURN(prepared->algorithm,
                           algorithms_ ? ChooseByTime(*prepared, call, stream)
                                       : ChooseFirst(*prepared, call, stream));
  // A kept algorithm has not run here yet, and loading it may allocate.
  STOWAGE_RETURN_IF_ERROR(Multiply(*prepared, call, stream));
  return prepared;
}

bool CublasLt::IsPrepared(const MatMulCall& call) const {
  return matmuls_.contains(KeyOf(call));
}

Status CublasLt::Run(const MatMulCall& call, cudaStream_t stream) {
  const auto found = matmuls_.find(KeyOf(call));
  STOWAGE_CHECK(found != matmuls_.end());
  return Multiply(*found->second, call, stream);
}

Status CublasLt::Multiply(const PreparedMatMul& prepared,
                          const MatMulCall& call, cudaStream_t stream) const {
  const bool adds = call.accumulate || call.epilogue.addend != nullptr;
  const float alpha = 1, beta = adds ? 1 : 0;
  STOWAGE_RETURN_IF_ERROR(SetEpilogueAddresses(prepared, call));
  return Check(functions_->cublasLtMatmul(
                   handle_, prepared.operation, &alpha, call.b.data, prepared.a,
                   call.a.data, prepared.b, &beta, AddendOf(call), prepared.c,
                   call.c, prepared.c, &prepared.algorithm, call.workspace,
                   static_cast<size_t>(call.workspace_bytes), stream),
               "cublasLtMatmul", call);
}

}  // namespace stowage::gpu

#include "gpu/emulator/emulated_queue.h"

#include <cstring>
#include <optional>
#include <vector>

#include "base/result.h"
#include "gpu/emulator/bulk_copies.h"
#include "math/activations.h"
#include "math/small_floats.h"

namespace stowage::gpu {
namespace {

double Load(DType dtype, const std::byte* data, int64_t i) {
  const std::byte* at = data + i * SizeOf(dtype);
  if (dtype == DType::kF32) {
    float x;
    std::memcpy(&x, at, sizeof(x));
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  if (dtype == DType::kF16) return math::HalfToFloat(bits);
  STOWAGE_CHECK(dtype == DType::kBF16);
  return math::BFloat16ToFloat(bits);
}

void Store(DType dtype, double value, std::byte* data, int64_t i) {
  std::byte* at = data + i * SizeOf(dtype);
  if (dtype == DType::kF32) {
    const auto x = static_cast<float>(value);
    std::memcpy(at, &x, sizeof(x));
    return;
  }
  const float odd = math::RoundToOddFloat(value);
  const uint16_t bits = dtype == DType::kF16 ? math::FloatToHalf(odd)
                                             : math::FloatToBFloat16(odd);
  std::memcpy(at, &bits, sizeof(bits));
}

// Matrix `index` of an operand as (rows, columns), row-major.
std::vector<double> Read(const MatrixOperand& x, DType dtype, int64_t index,
                         int64_t rows, int64_t columns) {
  const std::byte* data = x.data + index * x.batch_stride * SizeOf(dtype);
  std::vector<double> matrix(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      matrix[static_cast<size_t>(i * columns + j)] =
          Load(dtype, data, x.transposed ? j * x.stride + i : i * x.stride + j);
    }
  }
  return matrix;
}

// What the epilogue makes of the sum at (i, j) of product `index`.
double Finish(const MatMulCall& call, int64_t index, int64_t i, int64_t j,
              double sum) {
  const MatMulEpilogue& epilogue = call.epilogue;
  const int64_t at = index * call.c_batch_stride + i * call.c_stride + j;
  if (epilogue.bias != nullptr) sum += Load(call.dtype, epilogue.bias, j);
  if (epilogue.addend != nullptr) sum += Load(call.dtype, epilogue.addend, at);
  if (epilogue.gelu_x != nullptr) {
    sum *= math::GeluTanhDerivative(Load(call.dtype, epilogue.gelu_x, at));
  }
  return sum;
}

// The sums of each of `lines` rows, or columns, of `count` elements.
void SumLines(DType dtype, const std::vector<double>& matrix, int64_t lines,
              int64_t count, int64_t line_step, int64_t step, std::byte* sums) {
  for (int64_t line = 0; line < lines; ++line) {
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      sum += matrix[static_cast<size_t>(line * line_step + k * step)];
    }
    Store(dtype, sum, sums, line);
  }
}

}  // namespace

void EmulatedQueue::Launch(const KernelCall& call) {
  ++kernels_;
  RunGrid(call, options_);
}

TensorMap EmulatedQueue::Encode(const TensorMapSpec& spec) {
  const std::optional<TensorMap> map = emulator::EncodeTensorMap(spec);
  STOWAGE_CHECK(map.has_value());
  return *map;
}

void EmulatedQueue::MatMul(const MatMulCall& call) {
  ++products_;
  // There is room for the sums of one product.
  STOWAGE_CHECK(call.batch == 1 || (call.epilogue.a_sums == nullptr &&
                                    call.epilogue.b_sums == nullptr));
  std::vector<double> row(static_cast<size_t>(call.n));
  for (int64_t index = 0; index < call.batch; ++index) {
    const auto a = Read(call.a, call.dtype, index, call.m, call.k);
    const auto b = Read(call.b, call.dtype, index, call.k, call.n);
    if (call.epilogue.a_sums != nullptr) {
      SumLines(call.dtype, a, call.m, call.k, call.k, 1, call.epilogue.a_sums);
    }
    if (call.epilogue.b_sums != nullptr) {
      SumLines(call.dtype, b, call.n, call.k, 1, call.n, call.epilogue.b_sums);
    }
    std::byte* c = call.c + index * call.c_batch_stride * SizeOf(call.dtype);
    for (int64_t i = 0; i < call.m; ++i) {
      const int64_t first = i * call.c_stride;
      for (int64_t j = 0; j < call.n; ++j) {
        row[static_cast<size_t>(j)] =
            call.accumulate ? Load(call.dtype, c, first + j) : 0;
      }
      for (int64_t k = 0; k < call.k; ++k) {
        const double factor = a[static_cast<size_t>(i * call.k + k)];
        const double* from = b.data() + k * call.n;
        for (size_t j = 0; j < row.size(); ++j) row[j] += factor * from[j];
      }
      for (int64_t j = 0; j < call.n; ++j) {
        const double y = Finish(call, index, i, j, row[static_cast<size_t>(j)]);
        Store(call.dtype, y, c, first + j);
      }
    }
  }
}

void EmulatedQueue::Fill(std::byte* to, uint8_t value, Bytes bytes) {
  if (bytes > 0) std::memset(to, value, static_cast<size_t>(bytes));
}

void EmulatedQueue::Copy(std::byte* to, const std::byte* from, Bytes bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

}  // namespace stowage::gpu

// Products with a matrix that lies in blocks are, to the bit, those with its numbers as
// floats: however rows and columns are cut among tasks, for every type of blocks.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "ir/weight_type.h"
#include "tests/cpu/run_graph.h"

namespace stowage {
namespace {

struct Matrix {
  std::vector<double> bytes;    // as a leaf of u8
  std::vector<double> numbers;  // as a leaf of floats
};

// Blocks of bytes at random, but for the f16 at the places where a block has them, whose
// upper bytes stay below 0x38 so that they are numbers below 1/2.
Matrix RandomBlocks(WeightType type, int64_t rows, int64_t columns) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(
      static_cast<size_t>(BytesOf(type, rows * columns)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 0x38);
  Matrix matrix;
  for (const std::byte byte : bytes) {
    matrix.bytes.push_back(static_cast<double>(byte));
  }
  std::vector<float> numbers(static_cast<size_t>(rows * columns));
  Dequantize(type, bytes, numbers);
  matrix.numbers.assign(numbers.begin(), numbers.end());
  return matrix;
}

std::vector<double> RandomNumbers(int64_t count) {
  std::mt19937 random(3);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<double>(random() % 4096) / 1024 - 2);
  }
  return numbers;
}

void CheckSameBits(WeightType type, DType dtype, int64_t m, int64_t rows,
                   int64_t columns, bool transposed) {
  const Matrix w = RandomBlocks(type, rows, columns);
  const int64_t depth = transposed ? columns : rows;
  const Tensors leaves = {{"x", RandomNumbers(m * depth)},
                          {"bytes", w.bytes},
                          {"numbers", w.numbers}};
  GraphBuilder g("products");
  const Value x = g.Input("x", dtype, {m, depth});
  const Value bytes =
      g.Input("bytes", DType::kU8, {rows, BytesOf(type, columns)});
  const Value numbers = g.Input("numbers", dtype, {rows, columns});
  g.Output("blocks", QuantizedMatMul(x, bytes, type, transposed));
  g.Output("floats", MatMul(x, numbers, false, transposed));
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  for (const int threads : {1, 3}) {
    const CpuRun run = RunOnCpu(*graph, leaves, {.threads = threads});
    CHECK(run.code == StepCode::kOk);
    CHECK(run.guards_intact);
    CHECK(run.heap_calls == 0);
    CHECK(run.bytes.at("blocks") == run.bytes.at("floats"));
  }
}

TEST_CASE("a product in blocks has the bits of the product in floats") {
  for (int i = 0; i < kWeightTypes; ++i) {
    const auto type = static_cast<WeightType>(i);
    const BlockFormat& format = FormatOf(type);
    INFO(std::string(format.name));
    // More columns than are read at a time, and a last strip and block that are not
    // full; more rows than a task has.
    const int64_t columns =
        format.numbers == 1 ? 301 : 3 * 256 + format.numbers;
    CheckSameBits(type, DType::kF32, 5, 53, columns, true);
    CheckSameBits(type, DType::kF32, 5, 53, columns, false);
  }
  CheckSameBits(WeightType::kQ4_1, DType::kF64, 5, 53, 544, true);
  CheckSameBits(WeightType::kQ4_1, DType::kF64, 5, 299, 544, false);
  CheckSameBits(WeightType::kQ4_1, DType::kF32, 300, 100, 96, true);
  CheckSameBits(WeightType::kQ4_1, DType::kF32, 300, 300, 96, false);
  CheckSameBits(WeightType::kQ6_K, DType::kF32, 1, 40, 1024, false);
}

TEST_CASE("rows of blocks are gathered as their numbers") {
  for (const WeightType type : {WeightType::kQ8_0, WeightType::kQ4_K}) {
    const int64_t columns = 2 * FormatOf(type).numbers;
    const Matrix table = RandomBlocks(type, 5, columns);
    GraphBuilder g("rows");
    g.Output("y", QuantizedGather(
                      g.Input("table", DType::kU8, {5, BytesOf(type, columns)}),
                      g.Input("indices", DType::kI64, {3}), type));
    const auto graph = g.Finish();
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    Tensors leaves = {{"table", table.bytes}, {"indices", {4, 0, 4}}};
    const CpuRun run = RunOnCpu(*graph, leaves, {.threads = 2});
    CHECK(run.guards_intact);
    std::vector<double> expected;
    for (const int64_t row : {4, 0, 4}) {
      const auto first = table.numbers.begin() + row * columns;
      expected.insert(expected.end(), first, first + columns);
    }
    CHECK(run.values.at("y") == expected);
    leaves["indices"] = {4, 5, 0};
    CHECK(RunOnCpu(*graph, leaves).code == StepCode::kIndexOutOfRange);
  }
}

TEST_CASE("a loss over blocks has the bits of the loss over floats") {
  constexpr WeightType kType = WeightType::kQ4_0;
  const Matrix w = RandomBlocks(kType, 61, 64);
  const Tensors leaves = {{"x", RandomNumbers(7 * 64)},
                          {"bytes", w.bytes},
                          {"numbers", w.numbers},
                          {"labels", {0, 60, 3, 17, 17, 2, 59}},
                          {"weights", {1, 0, 2, 0.5, 1, 1, 0}},
                          {"dloss", {0.75}}};
  GraphBuilder g("losses");
  const Value x = g.Input("x", DType::kF32, {7, 64});
  const Value bytes = g.Input("bytes", DType::kU8, {61, 36});
  const Value numbers = g.Input("numbers", DType::kF32, {61, 64});
  const Value labels = g.Input("labels", DType::kI32, {7});
  const Value weights = g.Input("weights", DType::kF32, {7});
  const Value dloss = g.Input("dloss", DType::kF32, {});
  const auto blocks = LinearCrossEntropyGrad(
      x, bytes, labels, dloss, 3, {.weights = weights, .blocks = kType}, false);
  const auto floats = LinearCrossEntropyGrad(x, numbers, labels, dloss, 3,
                                             {.weights = weights});
  const auto frozen = LinearCrossEntropyGrad(x, numbers, labels, dloss, 3,
                                             {.weights = weights}, false);
  g.Output("blocks", blocks.dx);
  g.Output("floats", floats.dx);
  g.Output("frozen", frozen.dx);
  g.Output("blocks loss", blocks.loss);
  g.Output("floats loss", floats.loss);
  const auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const CpuRun run = RunOnCpu(*graph, leaves, {.threads = 2});
  CHECK(run.code == StepCode::kOk);
  CHECK(run.guards_intact);
  CHECK(run.bytes.at("blocks") == run.bytes.at("floats"));
  CHECK(run.bytes.at("frozen") == run.bytes.at("floats"));
  CHECK(run.bytes.at("blocks loss") == run.bytes.at("floats loss"));
  // A row of weight 0 has no gradient.
  const std::vector<double>& dx = run.values.at("blocks");
  for (int64_t k = 0; k < 64; ++k) CHECK(dx[static_cast<size_t>(64 + k)] == 0);
}

}  // namespace
}  // namespace stowage

// Copies, casts, concatenations, fills and constants of every element type, in
// the emulator.

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "gpu/kernel.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/gpu/grid_runner.h"
#include "tests/gpu/launch_builder.h"
#include "tests/gpu/run_graph.h"

namespace stowage {
namespace {

using testing::GridQueue;

// Small integers, which every type holds.
std::vector<double> Integers(const TensorType& type, uint32_t seed) {
  std::mt19937 random(seed);
  const int limit = type.dtype == DType::kBool ? 2 : 120;
  std::vector<double> x(static_cast<size_t>(type.shape.num_elements()));
  for (double& element : x) {
    element = static_cast<double>(random() % static_cast<uint32_t>(limit));
  }
  return x;
}

Value Leaf(GraphBuilder& g, Tensors* leaves, const char* name, DType dtype,
           const Shape& shape) {
  (*leaves)[name] = Integers({dtype, shape}, static_cast<uint32_t>(name[0]));
  return g.Input(name, dtype, shape);
}

Value Join(const std::vector<Value>& parts, int64_t axis) {
  return Concat(parts, axis);
}

// Exact: nothing is computed.
template <typename F>
void CheckMoves(const F& f) {
  GraphBuilder g("moves");
  Tensors leaves;
  f(g, &leaves);
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  CheckAgainstInterpreter(*graph, leaves, 0);
}

TEST_CASE("copies of views of any shape, in every element type") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(DTypeName(dtype));
    for (const int64_t n : {1, 5, 8, 16, 31, 32, 33, 70}) {
      CAPTURE(n);
      CheckMoves([&](GraphBuilder& g, Tensors* leaves) {
        const Value x = Leaf(g, leaves, "x", dtype, {3, n, 40});
        g.Output("plain", Copy(x));
        g.Output("transposed", Copy(Permute(x, {0, 2, 1})));
        g.Output("turned", Copy(Permute(x, {2, 0, 1})));
        g.Output("turned about", Copy(Permute(x, {2, 1, 0})));
        g.Output("heads", Copy(Permute(x, {1, 0, 2})));
        g.Output("inner slice", Copy(Slice(x, 2, 8, 24)));
        g.Output("odd slice", Copy(Slice(x, 2, 3, 39)));
        g.Output("every third", Copy(Slice(x, 2, 0, 40, 3)));
        g.Output("transposed slice",
                 Copy(Permute(Slice(x, 2, 1, 38), {0, 2, 1})));
        g.Output("every other, transposed",
                 Copy(Permute(Slice(x, 2, 0, 40, 2), {0, 2, 1})));
        g.Output("repeated", Copy(BroadcastTo(Slice(x, 1, 0, 1), {3, 9, 40})));
      });
    }
  }
}

TEST_CASE("concatenations along every axis, in every element type") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(DTypeName(dtype));
    for (const int64_t n : {1, 5, 8, 32}) {
      CAPTURE(n);
      CheckMoves([&](GraphBuilder& g, Tensors* leaves) {
        const Value a = Leaf(g, leaves, "a", dtype, {3, n, 16});
        const Value b = Leaf(g, leaves, "b", dtype, {2, n, 16});
        const Value c = Leaf(g, leaves, "c", dtype, {3, 24, 16});
        const Value d = Leaf(g, leaves, "d", dtype, {3, n, 7});
        const Value e = Leaf(g, leaves, "e", dtype, {16, n, 3});
        g.Output("first", Join({a, b, a}, 0));
        g.Output("middle", Join({a, c}, 1));
        g.Output("last", Join({a, d, a}, 2));
        g.Output("views", Join({Permute(e, {2, 1, 0}), a}, 2));
        g.Output("repeated",
                 Join({BroadcastTo(Slice(a, 2, 3, 4), {3, n, 8}), a}, 2));
        g.Output("one", Join({a}, 1));
      });
    }
  }
}

// What a type's numbers do at its ends and between them.
std::vector<double> Difficult(DType dtype) {
  std::vector<double> x = {0, 1, 2, 3, 100, 127, 128, 200, 255};
  if (dtype == DType::kBool) return {0, 1, 1, 0, 1};
  if (dtype == DType::kU8) return x;
  for (const double y :
       {-1.0, -2.0, -128.0, -129.0, 256.0, 257.0, 2049.0, 32767.0, -32768.0}) {
    x.push_back(y);
  }
  if (dtype == DType::kI16) return x;
  for (const double y :
       {32768.0, 65503.0, 65504.0, 65519.0, 65520.0, 65521.0, 16777217.0,
        2147483647.0, -2147483648.0, 0x1.00ffffp22, 0x1.010001p24}) {
    x.push_back(y);
  }
  if (dtype == DType::kI32) return x;
  for (const double y : {0x1p31, -0x1p40, 0x1p62, -0x1p63, 0x1.01p62,
                         0x1.0100000000001p60, 0x1.fffffffffffffp62}) {
    x.push_back(y);
  }
  if (dtype == DType::kI64) return x;
  const double inf = HUGE_VAL;
  for (const double y : {-0.0,
                         0.5,
                         -0.5,
                         1.5,
                         2.5,
                         0.99,
                         -0.99,
                         1e-3,
                         -1e-8,
                         0x1p-24,
                         0x1p-25,
                         0x1.8p-25,
                         0x1.002p0,
                         0x1.006p0,
                         0x1.01p0,
                         0x1.03p0,
                         0x1.010000001p0,
                         0x1.0020000000001p0,
                         1e10,
                         -1e10,
                         1e19,
                         -1e19,
                         1e30,
                         3.4e38,
                         1e39,
                         1e300,
                         inf,
                         -inf,
                         std::nan("")}) {
    x.push_back(y);
  }
  return x;
}

// The elements as they lie, but for a NaN, of which types have many: each GPU and the
// CPU makes its own.
std::vector<std::byte> Bits(const LaunchBuilder& launch) {
  std::vector<std::byte> bytes = launch.bytes(0);
  const std::vector<double> elements = launch.output(0);
  const size_t size = bytes.size() / elements.size();
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!std::isnan(elements[i])) continue;
    std::memset(bytes.data() + i * size, 0xFF, size);
  }
  return bytes;
}

TEST_CASE("casts give what those of the CPU give, bit for bit") {
  cpu::ThreadPool pool(1);
  for (const DType from : kAllDTypes) {
    std::vector<double> numbers = Difficult(from);
    while (numbers.size() < 300) {
      numbers.insert(numbers.end(), numbers.begin(),
                     numbers.begin() + std::ssize(numbers) / 2 + 1);
    }
    const auto n = static_cast<int64_t>(numbers.size());
    for (const DType to : kAllDTypes) {
      CAPTURE(DTypeName(from));
      CAPTURE(DTypeName(to));
      const auto make = [&](LaunchBuilder* launch, size_t shift) {
        launch->Input(from, {n}, numbers, shift);
        launch->Output(to, {n});
      };
      const Attrs attrs{{"dtype", to}};
      LaunchBuilder on_cpu(OpKind::kCast, attrs);
      make(&on_cpu, 0);
      cpu::GetKernel(OpKind::kCast).run(on_cpu.launch(), pool);
      for (const uint64_t seed : {1, 2, 3}) {
        LaunchBuilder on_gpu(OpKind::kCast, attrs);
        make(&on_gpu, seed % 2);
        GridQueue queue({.seed = seed});
        gpu::GetKernel(OpKind::kCast).enqueue(on_gpu.launch(), queue);
        CHECK(on_gpu.intact());
        CHECK(Bits(on_gpu) == Bits(on_cpu));
      }
    }
  }
}

TEST_CASE("casts of views, over their operands where they are as wide") {
  for (const DType from :
       {DType::kF32, DType::kBF16, DType::kI32, DType::kU8}) {
    for (const DType to : kAllDTypes) {
      CAPTURE(DTypeName(from));
      CAPTURE(DTypeName(to));
      CheckMoves([&](GraphBuilder& g, Tensors* leaves) {
        const Value x = Leaf(g, leaves, "x", from, {5, 24});
        const Value z = Leaf(g, leaves, "z", from, {1000});
        g.Output("plain", Cast(z, to));
        g.Output("transposed", Cast(Transpose(x), to));
        g.Output("slice", Cast(Slice(x, 1, 8, 16), to));
      });
    }
  }
}

TEST_CASE("fills of any size that start anywhere") {
  const std::pair<DType, double> fills[] = {
      {DType::kF32, 0},    {DType::kF32, -2.5}, {DType::kF64, 0.1},
      {DType::kBF16, 0.1}, {DType::kF16, 1e-7}, {DType::kI16, -2},
      {DType::kI32, -1},   {DType::kI32, 258},  {DType::kI64, 1e15},
      {DType::kU8, 7},     {DType::kBool, 1},   {DType::kF32, HUGE_VAL}};
  for (const auto& fill : fills) {
    const DType dtype = fill.first;
    const double value = fill.second;
    CAPTURE(DTypeName(dtype));
    CAPTURE(value);
    const Attrs attrs{
        {"dtype", dtype}, {"shape", std::vector<int64_t>{}}, {"value", value}};
    std::vector<std::byte> element(static_cast<size_t>(SizeOf(dtype)));
    EncodeElement(dtype, value, element.data());
    for (const int64_t n : {1, 2, 3, 7, 8, 255, 256, 1027, 5000}) {
      for (const size_t shift : {0, 1, 3}) {
        CAPTURE(n);
        CAPTURE(shift);
        LaunchBuilder launch(OpKind::kFill, attrs);
        launch.Output(dtype, {n}, shift);
        GridQueue queue({.seed = 1 + shift});
        gpu::GetKernel(OpKind::kFill).enqueue(launch.launch(), queue);
        CHECK(launch.intact());
        const std::vector<std::byte> got = launch.bytes(0);
        bool same = true;
        for (size_t i = 0; i < got.size(); ++i) {
          same = same && got[i] == element[i % element.size()];
        }
        CHECK(same);
      }
    }
  }
}

TEST_CASE("constants arrive byte by byte, also those longer than params") {
  for (const size_t bytes : {4, 8, 3980, 3984, 3988, 4096, 10000}) {
    CAPTURE(bytes);
    for (const bool uniform : {false, true}) {
      std::string data(bytes, '\5');
      std::mt19937 random(1);
      for (char& c : data) {
        if (!uniform) c = static_cast<char>(random());
      }
      const auto n = static_cast<int64_t>(bytes / 4);
      LaunchBuilder launch(OpKind::kConstant,
                           {{"dtype", DType::kI32},
                            {"shape", std::vector<int64_t>{n}},
                            {"data", data}});
      launch.Output(DType::kI32, {n});
      GridQueue queue({.seed = 3});
      gpu::GetKernel(OpKind::kConstant).enqueue(launch.launch(), queue);
      CHECK(launch.intact());
      const std::vector<std::byte> got = launch.bytes(0);
      REQUIRE(got.size() == data.size());
      CHECK(std::memcmp(got.data(), data.data(), data.size()) == 0);
    }
  }
}

}  // namespace
}  // namespace stowage

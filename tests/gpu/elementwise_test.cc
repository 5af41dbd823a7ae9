// Elementwise kernels in the emulator: every way that operands may lie.

#include "gpu/kernels/elementwise.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "cpu/kernel.h"
#include "cpu/thread_pool.h"
#include "gpu/kernel.h"
#include "gpu/kernels/walk.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/gpu/grid_runner.h"
#include "tests/gpu/launch_builder.h"
#include "tests/gpu/run_graph.h"
#include "tests/support/op_cases.h"

namespace stowage {
namespace {

using testing::GridQueue;

constexpr DType kReals[] = {DType::kF32, DType::kBF16, DType::kF16};

// Half a unit of the last bit, of a result of order 1, and a little.
double Tolerance(DType dtype) {
  if (dtype == DType::kF32) return 1e-5;
  return dtype == DType::kBF16 ? 0x1.1p-8 : 0x1.1p-11;
}

// Numbers that every float type holds: multiples of 1/64 in [-2, 2).
std::vector<double> Numbers(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> draw(-128, 127);
  std::vector<double> x(static_cast<size_t>(n));
  for (double& element : x) element = draw(random) / 64.0;
  return x;
}
std::vector<double> Bools(int64_t n, uint32_t seed) {
  std::vector<double> x = Numbers(n, seed);
  for (double& element : x) element = element < 0 ? 1 : 0;
  return x;
}

// --- Walks --------------------------------------------------------------------

TEST_CASE("a divisor divides") {
  std::mt19937 random(1);
  std::vector<uint32_t> xs = {0, 1, 2, 3, 0x7FFFFFFE, 0x7FFFFFFF};
  for (int i = 0; i < 200; ++i) xs.push_back(random() >> (1 + i % 31));
  std::vector<uint32_t> ds = {1, 2, 3, 7, 641, 0x40000000, 0x7FFFFFFF};
  for (int i = 0; i < 200; ++i) ds.push_back((random() >> (1 + i % 31)) | 1);
  for (const uint32_t d : ds) {
    const gpu::Divisor divisor = gpu::Divisor::Of(d);
    for (const uint32_t x : xs) {
      CAPTURE(x);
      CAPTURE(d);
      CHECK(divisor.Divide(x) == x / d);
      CHECK(divisor.Divide(x / d * d) == x / d);
    }
  }
}

TEST_CASE("a walk finds every element where its strides put it") {
  const Shape shape{3, 1, 4, 5, 2};
  const Strides row_major = ContiguousStrides(shape);
  const Strides views[] = {row_major,
                           {0, 0, 0, 0, 0},
                           {1, 7, 3, 12, 60},
                           {40, 40, 10, 2, 1},
                           {0, 0, 10, 2, 1}};
  for (const Strides& a : views) {
    for (const Strides& b : views) {
      const auto loop = gpu::MergeAxes<3>(shape, {&row_major, &a, &b});
      CHECK(loop.elements() == shape.num_elements());
      const auto walk = gpu::Walk<3>::Over(loop, 1);
      for (uint32_t i = 0; i < shape.num_elements(); ++i) {
        int32_t offsets[1][3];
        walk.Locate({i}, offsets);
        int64_t rest = i, at_a = 0, at_b = 0;
        for (int axis = shape.rank() - 1; axis >= 0; --axis) {
          at_a += rest % shape[axis] * a[axis];
          at_b += rest % shape[axis] * b[axis];
          rest /= shape[axis];
        }
        CHECK(offsets[0][0] == static_cast<int32_t>(i));
        CHECK(offsets[0][1] == at_a);
        CHECK(offsets[0][2] == at_b);
      }
    }
  }
}

TEST_CASE("what is contiguous is one axis, and a bias added to rows two") {
  const Shape shape{2, 3, 4, 5};
  const Strides y = ContiguousStrides(shape);
  const Strides bias{0, 0, 0, 1}, scalar{0, 0, 0, 0};
  CHECK(gpu::MergeAxes<2>(shape, {&y, &y}).rank == 1);
  CHECK(gpu::MergeAxes<2>(shape, {&y, &scalar}).rank == 1);
  CHECK(gpu::MergeAxes<2>(shape, {&y, &bias}).rank == 2);
}

TEST_CASE("loops beyond 32 bits are cut into pieces within them") {
  // A row of 2^33 elements; a transposed matrix of 2^32; 5 x 2^31 x 3 rows that
  // one operand repeats.
  struct Case {
    Shape shape;
    Strides x;
  };
  const int64_t big = int64_t{1} << 31;
  const Case cases[] = {{{4 * big}, {1}},
                        {{65536, 65536}, {1, 65536}},
                        {{5, big, 3}, {0, 3, 1}},
                        {{big - 1}, {1}},
                        {{3, 5}, {big, 1}}};
  for (const Case& c : cases) {
    CAPTURE(c.shape.ToString());
    const Strides y = ContiguousStrides(c.shape);
    int64_t elements = 0;
    double sum = 0;  // of the numbers of the first elements' results
    int pieces = 0;
    gpu::ForEachPiece(gpu::MergeAxes<2>(c.shape, {&y, &c.x}),
                      [&](const gpu::StridedLoop<2>& piece, const auto& first) {
                        elements += piece.elements();
                        ++pieces;
                        double middle = static_cast<double>(first[0]);
                        for (int k = 0; k < 2; ++k) {
                          int64_t reach = 1;
                          for (int axis = 0; axis < piece.rank; ++axis) {
                            const int64_t along =
                                (piece.dims[axis] - 1) * piece.steps[axis][k];
                            reach += along;
                            if (k == 0)
                              middle += static_cast<double>(along) / 2;
                          }
                          CHECK(reach < gpu::kMaxReach);
                        }
                        sum += middle * static_cast<double>(piece.elements());
                      });
    const auto all = static_cast<double>(c.shape.num_elements());
    CHECK(elements == c.shape.num_elements());
    // Every result's number once: their mean is that of 0, ..., n - 1.
    CHECK(sum / all == doctest::Approx((all - 1) / 2).epsilon(1e-9));
    CHECK(pieces <= 64);
  }
}

// --- Numbers ------------------------------------------------------------------

TEST_CASE("rough functions are as exact as they say") {
  for (int i = -20000; i <= 20000; ++i) {
    const float x = static_cast<float>(i) * 0x1p-8f;  // in [-78, 78]
    const double exp = std::exp(double{x});
    const double error = std::fabs(double{Exp(gpu::RoughFloat(x))} / exp - 1);
    CHECK(error < 0x1p-20 + std::fabs(x) * 0x1p-23);
    const double tanh = double{Tanh(gpu::RoughFloat(x))};
    CHECK(std::fabs(tanh - std::tanh(double{x})) < 0x1p-19);
  }
  CHECK(Tanh(gpu::RoughFloat(1e30f)).value == 1);
  CHECK(Tanh(gpu::RoughFloat(-1e30f)).value == -1);
}

// --- Kernels ------------------------------------------------------------------

// Sizes around packs, the units of a block, and blocks.
constexpr int64_t kSizes[] = {
    1,   2,    3,    4,    5,    7,    8,    9,    15,   16,   17,   255,   256,
    257, 1023, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8193, 100003};

struct Built {
  Graph graph;
  Tensors leaves;
};

template <typename F>
Built Build(const F& f) {
  GraphBuilder g("elementwise");
  Tensors leaves;
  f(g, &leaves);
  return {*g.Finish(), std::move(leaves)};
}

Value Leaf(GraphBuilder& g, Tensors* leaves, const char* name, DType dtype,
           const Shape& shape) {
  const auto seed = static_cast<uint32_t>(name[0]);
  const int64_t n = shape.num_elements();
  (*leaves)[name] = dtype == DType::kBool ? Bools(n, seed) : Numbers(n, seed);
  return g.Input(name, dtype, shape);
}

void Check(const Built& built, DType dtype) {
  CheckAgainstInterpreter(built.graph, built.leaves, Tolerance(dtype));
}

TEST_CASE("contiguous operands of any size") {
  for (const DType dtype : kReals) {
    for (const int64_t n : kSizes) {
      CAPTURE(n);
      Check(Build([&](GraphBuilder& g, Tensors* leaves) {
              const Value a = Leaf(g, leaves, "a", dtype, {n});
              const Value b = Leaf(g, leaves, "b", dtype, {n});
              const Value c = Leaf(g, leaves, "c", DType::kBool, {n});
              g.Output("product", Mul(a, b));
              g.Output("silu", Silu(a));
              g.Output("less", Less(a, b));
              g.Output("where", Where(c, a, b));
            }),
            dtype);
    }
  }
}

TEST_CASE("biases, one number a row, scalars and views of any width") {
  for (const DType dtype : kReals) {
    for (const int64_t columns : {1, 3, 4, 7, 8, 12, 16, 24, 33, 64, 160}) {
      CAPTURE(columns);
      Check(Build([&](GraphBuilder& g, Tensors* leaves) {
              const Value x = Leaf(g, leaves, "x", dtype, {3, 5, columns});
              const Value bias = Leaf(g, leaves, "bias", dtype, {columns});
              const Value each = Leaf(g, leaves, "each", dtype, {3, 5, 1});
              const Value scalar = Leaf(g, leaves, "scalar", dtype, {});
              const Value wide =
                  Leaf(g, leaves, "wide", dtype, {3, 5, 3 * columns});
              const Value other =
                  Leaf(g, leaves, "other", dtype, {5, 3, columns});
              g.Output("bias added", Add(x, bias));
              g.Output("rows scaled", Mul(x, each));
              g.Output("all scaled", Mul(scalar, x));
              g.Output("inner slice",
                       Sub(x, Slice(wide, 2, columns, 2 * columns)));
              const Value ragged =
                  Leaf(g, leaves, "ragged", dtype, {3, 5, 2 * columns + 1});
              g.Output("rows an odd distance apart",
                       Add(x, Slice(ragged, 2, 0, columns)));
              g.Output("middle slice", Neg(Slice(x, 1, 1, 4)));
              g.Output("axes swapped", Add(Permute(other, {1, 0, 2}), x));
              g.Output("transposed", Square(Permute(x, {2, 0, 1})));
              g.Output("every other", Relu(Slice(wide, 2, 0, 3 * columns, 2)));
              g.Output("both repeated",
                       Add(BroadcastTo(bias, {2, 3, columns}),
                           BroadcastTo(scalar, {2, 3, columns})));
            }),
            dtype);
    }
  }
}

TEST_CASE("every axis may be strided, up to the largest rank") {
  for (const DType dtype : kReals) {
    Check(
        Build([&](GraphBuilder& g, Tensors* leaves) {
          const Value x = Leaf(g, leaves, "x", dtype, {2, 3, 2, 3, 2, 3, 2, 3});
          const Value y =
              Slice(Slice(Slice(x, 1, 0, 3, 2), 3, 0, 3, 2), 5, 0, 3, 2);
          g.Output("y", Neg(y));
          g.Output("z", Neg(Permute(x, {7, 5, 3, 1, 0, 2, 4, 6})));
        }),
        dtype);
  }
}

TEST_CASE("elementwise rows of the op table hold in f16") {
  int rows = 0;
  for (const OpCase& c : GpuOpCases(DType::kF16)) {
    const bool elementwise =
        (c.op >= OpKind::kNeg && c.op <= OpKind::kDropout) ||
        c.op == OpKind::kCopy || c.op == OpKind::kConcat;
    if (!elementwise) continue;
    CheckAgainstInterpreter(BuildCase(c), CaseLeaves(c),
                            std::max(c.tolerance, 0x1p-9));
    ++rows;
  }
  CHECK(rows > 100);
}

TEST_CASE("integers wrap around") {
  LaunchBuilder add(OpKind::kAdd), neg(OpKind::kNeg), mul(OpKind::kMul);
  add.Input(DType::kI32, {2}, {2147483647, -2147483648.0});
  add.Input(DType::kI32, {2}, {1, -1});
  add.Output(DType::kI32, {2});
  neg.Input(DType::kI16, {2}, {-32768, 5});
  neg.Output(DType::kI16, {2});
  mul.Input(DType::kU8, {2}, {200, 3});
  mul.Input(DType::kU8, {2}, {2, 5});
  mul.Output(DType::kU8, {2});
  GridQueue queue;
  gpu::GetKernel(OpKind::kAdd).enqueue(add.launch(), queue);
  gpu::GetKernel(OpKind::kNeg).enqueue(neg.launch(), queue);
  gpu::GetKernel(OpKind::kMul).enqueue(mul.launch(), queue);
  CHECK(add.output(0) == std::vector<double>{-2147483648.0, 2147483647});
  CHECK(neg.output(0) == std::vector<double>{-32768, -5});
  CHECK(mul.output(0) == std::vector<double>{144, 15});
}

TEST_CASE("NaN passes through maximum, minimum, relu and clamped tails") {
  const double nan = std::nan(""), inf = HUGE_VAL;
  for (const DType dtype : kReals) {
    GridQueue queue;
    for (const OpKind op : {OpKind::kMaximum, OpKind::kMinimum}) {
      LaunchBuilder launch(op);
      launch.Input(dtype, {3}, {nan, 1, 2});
      launch.Input(dtype, {3}, {1, nan, 3});
      launch.Output(dtype, {3});
      gpu::GetKernel(op).enqueue(launch.launch(), queue);
      CHECK(std::isnan(launch.output(0)[0]));
      CHECK(std::isnan(launch.output(0)[1]));
      CHECK(launch.output(0)[2] == (op == OpKind::kMaximum ? 3 : 2));
    }
    for (const OpKind op : {OpKind::kRelu, OpKind::kSilu, OpKind::kGeluTanh,
                            OpKind::kSigmoid, OpKind::kTanh}) {
      CAPTURE(OpName(op));
      LaunchBuilder launch(op);
      launch.Input(dtype, {3}, {nan, inf, 2000});
      launch.Output(dtype, {3});
      gpu::GetKernel(op).enqueue(launch.launch(), queue);
      const bool bounded = op == OpKind::kSigmoid || op == OpKind::kTanh;
      CHECK(std::isnan(launch.output(0)[0]));
      CHECK(launch.output(0)[1] == (bounded ? 1 : inf));
      CHECK(launch.output(0)[2] == (bounded ? 1 : 2000));
    }
  }
}

// --- Dropout ------------------------------------------------------------------

void FillDropout(LaunchBuilder* launch, DType dtype, int64_t n, size_t shift) {
  // Far from 0, so that what was dropped shows; all types hold them.
  std::vector<double> x = Numbers(n, 3);
  for (double& element : x) element = std::floor(8 * element) / 8 + 4;
  launch->Input(dtype, {n}, x, shift);
  launch->Input(DType::kI64, {}, {1234567890123});
  launch->Input(DType::kI64, {}, {42});
  launch->Output(dtype, {n});
}

TEST_CASE("dropout keeps what the CPU keeps, bit for bit") {
  cpu::ThreadPool pool(1);
  for (const double p : {0.0, 0.1, 0.5, 0.9}) {
    for (const int64_t n : {1, 7, 8, 255, 257, 4099, 100003}) {
      CAPTURE(p);
      CAPTURE(n);
      const Attrs attrs{{"p", p}, {"id", int64_t{77}}};
      LaunchBuilder on_cpu(OpKind::kDropout, attrs);
      FillDropout(&on_cpu, DType::kF32, n, 0);
      cpu::GetKernel(OpKind::kDropout).run(on_cpu.launch(), pool);
      for (const size_t shift : {0, 1}) {
        for (const uint64_t seed : {1, 2, 3}) {
          LaunchBuilder on_gpu(OpKind::kDropout, attrs);
          FillDropout(&on_gpu, DType::kF32, n, shift);
          GridQueue queue({.seed = seed});
          gpu::GetKernel(OpKind::kDropout).enqueue(on_gpu.launch(), queue);
          CHECK(on_gpu.bytes(0) == on_cpu.bytes(0));
          CHECK(on_gpu.intact());
        }
      }
      for (const DType dtype : {DType::kBF16, DType::kF16}) {
        LaunchBuilder on_gpu(OpKind::kDropout, attrs);
        FillDropout(&on_gpu, dtype, n, 0);
        GridQueue queue;
        gpu::GetKernel(OpKind::kDropout).enqueue(on_gpu.launch(), queue);
        const std::vector<double> kept = on_cpu.output(0);
        const std::vector<double> got = on_gpu.output(0);
        int64_t different = 0;
        for (size_t i = 0; i < kept.size(); ++i) {
          different += (kept[i] == 0) != (got[i] == 0);
        }
        CHECK(different == 0);
        CHECK(LargestError(got, kept) <= Tolerance(dtype));
      }
    }
  }
}

TEST_CASE("dropout of a view drops by the result's element numbers") {
  // x's transpose through a view, and the same elements in row-major order.
  const Built viewed = Build([](GraphBuilder& g, Tensors* leaves) {
    const Value x = Leaf(g, leaves, "x", DType::kF32, {40, 24});
    const Value seed = g.Input("seed", DType::kI64, {});
    const Value step = g.Input("step", DType::kI64, {});
    (*leaves)["seed"] = {5};
    (*leaves)["step"] = {9};
    g.Output("of a view", Dropout(Transpose(x), seed, step, 0.5, 3));
    g.Output("of a copy", Dropout(Copy(Transpose(x)), seed, step, 0.5, 3));
    g.Output("of a slice", Dropout(Slice(x, 1, 8, 16), seed, step, 0.5, 3));
  });
  const GpuRun run = RunInEmulator(viewed.graph, viewed.leaves);
  CHECK(run.wrong == "");
  CHECK(run.bytes.at("of a view") == run.bytes.at("of a copy"));
  Check(viewed, DType::kF32);
}

}  // namespace
}  // namespace stowage

// A custom op, squareplus, (x + sqrt(x^2 + 4)) / 2, with its derivative and its kernel, checked
// and trained (docs/guides/own_ops.md).
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "stowage/stowage.h"

using namespace stowage;

op_defs::TypesResult Infer(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(op_defs::CheckAttrs(args, {}));
  STOWAGE_RETURN_IF_ERROR(
      op_defs::CheckDType(args, 0, "x", op_defs::DTypes::kFloat));
  return op_defs::Typed(args, {args.type(0)});
}

template <typename T>
void Run(const Launch& launch, cpu::ThreadPool& pool) {
  const T* x = launch.inputs[0].as<const T>();
  T* y = launch.outputs[0].as<T>();
  const int64_t size = launch.outputs[0].size();
  pool.ParallelFor((size + 4095) / 4096, [&](int64_t chunk, int) {
    for (int64_t i = chunk * 4096; i < std::min(size, (chunk + 1) * 4096); ++i)
      y[i] = (x[i] + std::sqrt(x[i] * x[i] + 4)) / 2;
  });
}

const OpKind kSquareplus =
    *DefineOp("squareplus", {.infer = Infer,
                             .flops = op_defs::FlopsPerResultElement<5>,
                             .may_overwrite = 0b1,
                             .per_example = true});

// y / sqrt(x^2 + 4), which is y / (2y - x).
const Status kDerivative =
    DefineVjp(kSquareplus, Differentiable([](VjpContext& v) {
                const Value y = v.output(), x = v.input(0);
                v.Contribute(0, Mul(v.cotangent(), Div(y, Sub(Add(y, y), x))));
              }));

const Status kKernel = cpu::DefineKernel(
    kSquareplus,
    {.run = [](const Launch& launch, cpu::ThreadPool& pool) noexcept {
      launch.inputs[0].dtype() == DType::kF64 ? Run<double>(launch, pool)
                                              : Run<float>(launch, pool);
      return StepCode::kOk;
    }});

template <typename R>  // the value of a Result, or the program's end
auto Must(R result) {
  if (!result.ok()) std::exit((std::puts(result.error().message.c_str()), 1));
  if constexpr (!std::is_same_v<R, Status>) return *std::move(result);
}

Result<Graph> Model(int64_t batch) {
  GraphBuilder g("curve");
  const Value x = g.Input("x", DType::kF32, {batch, 1});
  const Value y = g.Input("y", DType::kF32, {batch, 1});
  Value h = Apply(kSquareplus, {Linear(x, "fc1", 32)});
  h = Apply(kSquareplus, {Linear(h, "fc2", 32)});
  g.Output("loss", MeanSquaredError(Linear(h, "out", 1), y));
  return g.Finish();
}

int main() {
  Must(kDerivative), Must(kKernel);
  const auto cpu = MakeCpuBackend({.threads = 1});
  GraphBuilder g("check");
  const Value x = g.Input("x", DType::kF64, {20});
  g.Output("loss", ReduceSum(Apply(kSquareplus, {x})));
  Must(CheckGradients(Must(g.Finish()), "loss", *cpu));

  // By whatever optimizations it takes, in 40 KiB.
  Training training =
      Must(Train({.model = Model, .batch = 64, .budget = 40 << 10}, *cpu));
  training.Initialize(/*seed=*/1);
  std::vector<float> xs, ys;
  for (int i = 0; i < 64; ++i) {
    xs.push_back(static_cast<float>(i) / 32 - 1);
    ys.push_back(std::sin(3 * xs.back()));
  }
  Runner& step = training.step();
  float loss = 0;
  for (int64_t i = 1; i <= 1000; ++i) {
    Must(step.Write("x", xs)), Must(step.Write("y", ys));
    Must(step.Write("lr", 1e-2f)), Must(step.Write("step", i));
    if (const StepCode code = step.Step(); code != StepCode::kOk)
      std::exit((std::puts(step.Explain(code).message.c_str()), 1));
    loss = Must(step.ReadScalar("loss"));
  }
  std::printf("loss %g in %lld bytes\n", loss,
              static_cast<long long>(training.plan().arena_bytes()));
  return loss < 1e-3f ? 0 : 1;
}

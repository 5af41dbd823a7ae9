#include "snake.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace own {
namespace {

using namespace stowage;
using stowage::op_defs::AttrKind;
using stowage::op_defs::CheckAttrs;
using stowage::op_defs::CheckDType;
using stowage::op_defs::CheckPositive;
using stowage::op_defs::DTypes;
using stowage::op_defs::FlopsPerResultElement;
using stowage::op_defs::Typed;
using stowage::op_defs::TypesResult;

TypesResult Infer(const OpArgs& args) {
  STOWAGE_RETURN_IF_ERROR(CheckAttrs(args, {{"a", AttrKind::kReal}}));
  STOWAGE_RETURN_IF_ERROR(CheckPositive(args, "a"));
  STOWAGE_RETURN_IF_ERROR(CheckDType(args, 0, "x", DTypes::kFloat));
  return Typed(args, {args.type(0)});
}

template <typename T>
void Run(const Launch& launch, cpu::ThreadPool& pool) {
  constexpr int64_t kChunk = 4096;
  const T* const x = launch.inputs[0].as<const T>();
  T* const y = launch.outputs[0].as<T>();
  const int64_t size = launch.outputs[0].size();
  const auto a = static_cast<T>(launch.attrs->Float("a"));
  pool.ParallelFor((size + kChunk - 1) / kChunk, [&](int64_t chunk, int) {
    const int64_t end = std::min(size, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const T sine = std::sin(a * x[i]);
      y[i] = x[i] + sine * sine / a;
    }
  });
}

StepCode RunAny(const Launch& launch, cpu::ThreadPool& pool) noexcept {
  launch.inputs[0].dtype() == DType::kF64 ? Run<double>(launch, pool)
                                          : Run<float>(launch, pool);
  return StepCode::kOk;
}

// dy/dx = 1 + 2 sin(a x) cos(a x) = 1 + sin(2 a x).
void Rule(VjpContext& v) {
  const double a = v.attrs().Float("a");
  const Value slope = AddScalar(Sin(MulScalar(v.input(0), 2 * a)), 1);
  v.Contribute(0, Mul(v.cotangent(), slope));
}

const OpKind kSnake =
    *DefineOp("own_snake", {.infer = Infer,
                            .flops = FlopsPerResultElement<20>,
                            .may_overwrite = 0b1,
                            .per_example = true});
[[maybe_unused]] const Status kDefined[] = {
    DefineVjp(kSnake, Differentiable(Rule)),
    cpu::DefineKernel(kSnake, {.run = RunAny}),
};

}  // namespace

stowage::Value Snake(stowage::Value x, double a, stowage::SourceLoc loc) {
  return Apply(kSnake, {x}, {{"a", a}}, loc);
}

}  // namespace own

#include "runtime/floats.h"

#include <doctest/doctest.h>

#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"

namespace stowage {
namespace {

TEST_CASE("floats come back out of params and outputs of every float type") {
  GraphBuilder g("floats");
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    const Value w = g.Param(DTypeName(dtype), dtype, {2, 2});
    g.Output(StrCat("minus ", DTypeName(dtype)), Neg(Transpose(w)));
  }
  g.Output("count", Iota(g, DType::kI32, 0, 1, 3));
  auto graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const auto cpu = MakeCpuBackend({.threads = 1});
  auto plan = PlanMemory(*graph, {.device = cpu->Needs()});
  REQUIRE(plan.ok());
  auto session = Session::Create({{"p", std::move(*graph), *plan}}, *cpu);
  REQUIRE(session.ok());
  Runner& p = session->front();

  // 1 + 2^-8 is a number of all but bf16, whose nearest even one is 1; 2^-30 is one of
  // all but f16, which has 0 for it.
  const std::vector<float> numbers = {-3, 0.5, 1 + 0x1p-8f, 0x1p-30f};
  const auto expected = [](DType dtype) {
    return std::vector<float>{-3, 0.5, dtype == DType::kBF16 ? 1 : 1 + 0x1p-8f,
                              dtype == DType::kF16 ? 0 : 0x1p-30f};
  };
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    REQUIRE(WriteFloats(p, DTypeName(dtype), 0, numbers).ok());
  }
  REQUIRE(p.Step() == StepCode::kOk);
  for (const DType dtype :
       {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    CAPTURE(DTypeName(dtype));
    const std::vector<float> e = expected(dtype);
    const auto read = ReadFloats(p, DTypeName(dtype));
    REQUIRE_MESSAGE(read.ok(), read.error().message);
    CHECK(*read == e);
    const auto out = ReadFloats(p, StrCat("minus ", DTypeName(dtype)));
    REQUIRE_MESSAGE(out.ok(), out.error().message);
    CHECK(*out == std::vector<float>{-e[0], -e[2], -e[1], -e[3]});
  }
  const auto message = [&](std::string_view name) {
    const auto read = ReadFloats(p, name);
    REQUIRE_FALSE(read.ok());
    return read.error().message;
  };
  CHECK(message("count") == "[session] \"count\" is of i32, no type of floats");
  CHECK(message("none") == "[session] program \"p\" has no value \"none\"");
}

}  // namespace
}  // namespace stowage

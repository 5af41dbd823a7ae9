#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cpu/cpu_backend.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "planner/plan_memory.h"
#include "runtime/session.h"
#include "runtime/values.h"

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

template <typename T>
std::optional<int64_t> Find(DType dtype, const std::vector<T>& values) {
  return FindNonFinite(dtype, std::as_bytes(std::span(values)));
}

TEST_CASE("the first NaN or infinity is found, the largest numbers are not") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float max = std::numeric_limits<float>::max();
  CHECK_FALSE(Find<float>(DType::kF32, {}).has_value());
  CHECK_FALSE(Find<float>(DType::kF32, {max, -max, 0, -0.0f}).has_value());
  CHECK(Find<float>(DType::kF32, {1, nan, inf}) == 1);
  CHECK(Find<float>(DType::kF32, {1, 2, -inf}) == 2);
  CHECK(Find<double>(DType::kF64, {1e308, -INFINITY}) == 1);
  CHECK_FALSE(Find<double>(DType::kF64, {1e308}).has_value());
  // IEEE half: 0x7BFF is 65504, 0x7C00 infinity; bfloat16: 0x7F7F and 0x7F80.
  CHECK_FALSE(Find<uint16_t>(DType::kF16, {0x7BFF, 0xFBFF}).has_value());
  CHECK(Find<uint16_t>(DType::kF16, {0, 0xFC00}) == 1);
  CHECK(Find<uint16_t>(DType::kF16, {0x7C01}) == 0);
  CHECK_FALSE(Find<uint16_t>(DType::kBF16, {0x7F7F, 0x7C00}).has_value());
  CHECK(Find<uint16_t>(DType::kBF16, {0, 0, 0xFF80}) == 2);
  CHECK_FALSE(Find<int32_t>(DType::kI32, {-1, 0x7F800000}).has_value());
}

TEST_CASE("a float is told as it is") {
  const std::vector<uint16_t> halves = {0x3C00, 0xFC00};
  CHECK(FloatText(DType::kF16, std::as_bytes(std::span(halves)), 0) == "1");
  CHECK(FloatText(DType::kF16, std::as_bytes(std::span(halves)), 1) == "-inf");
  const std::vector<double> doubles = {0.25};
  CHECK(FloatText(DType::kF64, std::as_bytes(std::span(doubles)), 0) == "0.25");
  const std::vector<uint16_t> brains = {0x3F80};
  CHECK(FloatText(DType::kBF16, std::as_bytes(std::span(brains)), 0) == "1");
}

}  // namespace
}  // namespace stowage

// Every row of the op test table in C, as the host's compiler makes it.

#include "tests/support/op_cases.h"

#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "compile/compile.h"
#include "tests/compile/host_library.h"
#include "tests/support/elements.h"

namespace stowage {
namespace {

using testing::ArenaInC;
using testing::GraphInC;
using testing::HostLibrary;
using testing::SourceToJoin;

// Whether the case can be written in C. Otherwise its op joins `refused`.
bool IsInC(const OpCase& c, const Graph& graph, int simd,
           std::set<std::string>* refused) {
  const Result<Plan> plan =
      PlanMemory(graph, {.alignment = kCAlignment, .device = NeedsOfC(simd)});
  REQUIRE(plan.ok());
  const Result<CompiledStep> compiled =
      CompileToC(graph, *plan, {.simd = simd});
  if (compiled.ok()) return true;
  const std::string& message = compiled.error().message;
  CHECK(message.starts_with("[compile] not available in C: "));
  CHECK_MESSAGE(message.find(OpName(c.op)) != std::string::npos, message);
  refused->insert(std::string(OpName(c.op)));
  return false;
}

struct Row {
  OpCase c;
  GraphInC in_c;
  bool is_alone;  // compiled as a file of its own, not joined with others
};

// The address of an offloaded value, which only the compiled file knows; null for others.
uint8_t* SlowBytesOf(const HostLibrary& library, const GraphInC& in_c,
                     const ValueInfo& value, ArenaInC& arena) {
  if (!value.on_host) return nullptr;
  const char* const kind = value.role == Role::kState   ? "state"
                           : value.role == Role::kParam ? "param"
                           : value.is_leaf()            ? "input"
                                                        : "output";
  const std::string name = StrCat(in_c.prefix, "_", kind, "_", value.name);
  return static_cast<uint8_t*>(
      library.Get<void*(uint8_t*)>(name)(arena.data()));
}

void CheckRows(const std::vector<Row>& rows, const std::string& name) {
  std::map<std::string, std::string> files;
  for (const Row& row : rows) {
    for (const auto& file : row.in_c.files) files.insert(file);
    if (row.is_alone) continue;
    files.erase(row.in_c.prefix + ".c");
    files["joined.c"] += SourceToJoin(row.in_c);
  }
  const HostLibrary library(name, files, "-O0");
  for (const Row& row : rows) {
    const OpCase& c = row.c;
    const GraphInC& in_c = row.in_c;
    CAPTURE(c.name);
    CAPTURE(in_c.files.at(in_c.prefix + ".c"));
    const Tensors leaves = CaseLeaves(c);
    ArenaInC arena(in_c);
    for (const ValueInfo& value : in_c.graph.values()) {
      if (value.is_leaf()) {
        arena.Write(value.name, leaves.at(value.name),
                    SlowBytesOf(library, in_c, value, arena));
      }
    }
    auto* const step = library.Get<int(uint8_t*)>(in_c.prefix + "_step");
    const int code = step(arena.data());
    CHECK((code == 0 || code == 2));  // 2: an output is infinite
    const Tensors expected = Interpret(in_c.graph, leaves, Rounding::kTo16Bits);
    for (const GraphOutput& output : in_c.graph.outputs()) {
      const double error = LargestError(
          arena.Read(output.name,
                     SlowBytesOf(library, in_c, in_c.graph.value(output.value),
                                 arena)),
          expected.at(output.name));
      CHECK_MESSAGE(error <= c.tolerance, output.name, " is off by ", error);
    }
  }
}

constexpr int kAllRows = 1000;

// The first `most` rows of each op, in vectors of `simd` bytes.
void CheckTable(DType real, int most, int simd = 0) {
  std::set<std::string> refused;
  std::vector<Row> rows;
  std::map<OpKind, int> taken;
  size_t count = 0;
  const auto flush = [&] {
    if (rows.empty()) return;
    CheckRows(rows, StrCat(DTypeName(real), "_", simd, "_", count));
    rows.clear();
  };
  for (const OpCase& c : OpCases(real)) {
    if (++taken[c.op] > most) continue;
    const Graph graph = BuildCase(c);
    if (!IsInC(c, graph, simd, &refused)) continue;
    const bool is_alone = real == DType::kF32 && taken[c.op] == 1;
    rows.push_back({c, GraphInC::Make(graph, StrCat("case", count++), {}, simd),
                    is_alone});
    if (rows.size() == 50) flush();
  }
  flush();
  MESSAGE(count, " rows of ", DTypeName(real), " in C");
  CHECK(count >= (most < kAllRows ? 250 : 890));
  std::string names;
  for (const std::string& op : refused)
    names += (names.empty() ? "" : " ") + op;
  CHECK(names == "");
}

TEST_CASE("op cases in C agree with the interpreter in f32") {
  CheckTable(DType::kF32, kAllRows);
}

TEST_CASE("op cases in vectors agree with the interpreter") {
  CheckTable(DType::kF32, kAllRows, /*simd=*/16);
  CheckTable(DType::kF32, 2, /*simd=*/32);
  CheckTable(DType::kF32, 2, /*simd=*/64);
  CheckTable(DType::kBF16, 2, /*simd=*/16);
}

TEST_CASE("op cases in C agree with the interpreter in f64") {
  CheckTable(DType::kF64, 2);
}

TEST_CASE("op cases in C agree with the interpreter in bf16 and f16") {
  CheckTable(DType::kBF16, 2);
  CheckTable(DType::kF16, 2);
}

}  // namespace
}  // namespace stowage

// Parsers of graphs, plans, packing problems, tables of op times, records of jobs and sizes.

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "admission/admission.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "base/strings.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/ops.h"
#include "ir/text.h"
#include "planner/fit/cost.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "planner/validate_plan.h"
#include "report/plan_json.h"
#include "tests/fuzz/fuzz.h"

using namespace stowage;
using stowage::testing::Check;

namespace {

// Packing problems and packings in CSV: those that parse are packed and validated.
FUZZ_TARGET(csv)(const uint8_t* data, size_t size) {
  using namespace stowage::packing;

  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const Result<PackedProblem> packed = ParsePackingCsv(text); packed.ok()) {
    if (CheckProblem(packed->problem).ok()) {
      Validate(packed->problem, packed->solution);
    }
  }
  const Result<Problem> problem = ParseProblemCsv(text);
  if (!problem.ok()) return 0;
  const Result<Problem> again = ParseProblemCsv(FormatProblemCsv(*problem));
  Check(again.ok() && FormatProblemCsv(*again) == FormatProblemCsv(*problem));
  if (!CheckProblem(*problem).ok()) return 0;
  for (const Packer packer :
       {Packer::kLinear, Packer::kGreedy, Packer::kBest}) {
    // The complete search is bounded in work, too much of it for here.
    const Deadline deadline = Clock::now() + std::chrono::milliseconds(20);
    const Result<Packing> packing =
        Pack(*problem, {.packer = packer, .deadline = deadline});
    Check(packing.ok());
    Check(Validate(*problem, packing->solution).empty());
    Check(packing->solution.height >= packing->lower_bound);
  }
  return 0;
}

// Graphs in text form: written again, a parsed graph is the same text.
FUZZ_TARGET(graph_text)(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return 0;
  const Result<Graph> again = ParseGraph(ToText(*graph));
  Check(again.ok() && ToText(*again) == ToText(*graph));
  return 0;
}

// Records of a ledger: a record that reads is written back as one that reads the same. The
// digest is computed here, since an input cannot guess it.
FUZZ_TARGET(job_record)(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // "job ", the digest, a space, what the input says, and the end of the line.
  constexpr size_t kTextBytes = kRecordBytes - 4 - 16 - 2;
  std::string body = StrCat(" ", text.substr(0, kTextBytes));
  body.resize(kTextBytes + 1, ' ');
  body += '\n';
  Fnv1a hash;
  hash.Update(body);
  const std::optional<LedgerJob> job =
      ParseJobRecord(StrCat("job ", HexDigest(hash.digest()), body));
  if (!job) return 0;
  Check(CheckJob(*job).ok() && job->bytes <= job->capacity);
  const std::optional<LedgerJob> again = ParseJobRecord(FormatJobRecord(*job));
  Check(again && *again == *job);
  return 0;
}

Graph Example() {
  GraphBuilder g("example");
  const Value a = g.Input("a", DType::kF32, {4, 8});
  const Value b = g.Param("b", DType::kF32, {8, 2});
  g.Output("y", Relu(MatMul(a, b)));
  return g.Finish().value();
}

// Tables of op times: one that parses gives the times of any graph.
FUZZ_TARGET(op_times)(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static const Graph graph = Example();
  const Result<OpTimes> times = OpTimes::Parse(text);
  if (!times.ok()) return 0;
  Check(OpTimes::Parse(times->ToText()).ok());
  for (const double nanoseconds : times->Nanoseconds(graph, Bytes{1} << 20)) {
    Check(std::isfinite(nanoseconds) && nanoseconds >= 1);
  }
  return 0;
}

// Plan files: plans that parse are validated.
FUZZ_TARGET(plan_json)(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<PlanFile> file = PlanFromJson(text);
  if (file.ok()) ValidatePlan(file->graph, file->plan);
  return 0;
}

// Sizes as users type them.
FUZZ_TARGET(sizes)(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<Bytes> bytes = ParseBytes(text);
  if (!bytes.ok()) return 0;
  Check(*bytes >= 0);
  Check(ParseBytes(std::to_string(*bytes)).value() == *bytes);
  Check(!FormatBytes(*bytes).empty());
  return 0;
}

}  // namespace

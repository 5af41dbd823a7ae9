// Packing problems and packings in CSV: what parses is packed and judged.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "planner/packing/csv.h"
#include "planner/packing/packer.h"
#include "planner/packing/problem.h"
#include "planner/packing/validate.h"
#include "tests/fuzz/check.h"

using namespace stowage;
using namespace stowage::packing;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
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

// Plan files: what parses is judged.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "planner/validate_plan.h"
#include "report/plan_json.h"

using namespace stowage;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<PlanFile> file = PlanFromJson(text);
  if (file.ok()) ValidatePlan(file->graph, file->plan);
  return 0;
}

#include "compile/constants.h"

#include "base/strings.h"
#include "compile/helpers.h"
#include "compile/step_writer.h"

namespace stowage::compile {

Constants::Constants(const Graph& graph, const Plan& plan)
    : alignment_(plan.alignment) {
  for (const ValueId id : graph.Leaves(Role::kParam)) {
    const PlannedBuffer& buffer = plan.buffers[static_cast<size_t>(
        plan.buffer_of[static_cast<size_t>(id)])];
    if (buffer.region != Region::kOutside) continue;
    names_.emplace(graph.value(id).name, StrCat("frozen_", names_.size()));
  }
}

std::string Constants::NameOf(std::string_view param) const {
  const auto at = names_.find(param);
  return at == names_.end() ? "" : at->second;
}

std::string Constants::Text(
    const std::map<std::string, std::string>& contents) const {
  std::string text;
  for (const auto& [param, name] : names_) {
    const std::string& bytes = contents.at(param);
    text += StrCat("/* ", InComment(param), " */\nstatic const _Alignas(",
                   alignment_, ") uint8_t ", name, "[", bytes.size(), "] = {\n",
                   BytesInC(bytes), "};\n\n");
  }
  return text;
}

}  // namespace stowage::compile

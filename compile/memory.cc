#include <algorithm>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "compile/file_parts.h"
#include "compile/kernel.h"

namespace stowage::compile {

Memory::Memory(std::span<const CProgram> programs,
               const CompileOptions& options)
    : programs_(programs), options_(options) {
  Bytes arena = 0, slow = 0;
  for (const CProgram& program : programs) {
    arena = std::max(arena, program.plan.arena_bytes());
    slow = std::max(slow, program.plan.host_bytes());
  }
  const std::string_view provided =
      "block that the application provides, zeroed";
  if (const std::optional<Placement>& placement = options.placement) {
    for (size_t r = 0; r < placement->regions.size(); ++r) {
      const std::string& name = placement->regions[r].name;
      blocks_.push_back(
          {.name = StrCat("region_", name),
           .constant = StrCat("REGION_", Upper(name), "_BYTES"),
           .section = StrCat("SECTION_", Upper(name)),
           .comment =
               options.caller_arena
                   ? StrCat("Of a ", provided, ": region ", name, ".")
                   : StrCat("Of the block of region ", name, ", to which ",
                            Upper(options.prefix), "_SECTION_", Upper(name),
                            " may give a section attribute."),
           .bytes = placement->use[r].bytes,
           .is_parameter = options.caller_arena});
    }
  } else {
    blocks_.push_back({.name = "arena",
                       .constant = "ARENA_BYTES",
                       .comment = options.caller_arena
                                      ? StrCat("Of the ", provided, ".")
                                      : "Of the block in the file, in .bss.",
                       .bytes = arena,
                       .is_parameter = options.caller_arena});
  }
  blocks_.push_back(
      {.name = "slow",
       .constant = "SLOW_BYTES",
       .comment =
           "Of a second block, of what the plan offloads: slow memory will do.",
       .bytes = slow});
}

Bytes Memory::arena() const {
  Bytes sum = 0;
  for (const MemoryBlock& block : blocks_) sum += block.bytes;
  return sum - slow();
}

const PlacedPlan* Memory::placed(size_t program) const {
  return options_.placement ? &options_.placement->programs[program] : nullptr;
}

const std::string& Memory::NameOf(bool on_host, int32_t region) const {
  if (on_host) return blocks_.back().name;
  return blocks_[options_.placement ? static_cast<size_t>(region) : 0].name;
}

std::string Memory::AddressOf(size_t program, int32_t buffer,
                              Bytes offset) const {
  const auto index = static_cast<size_t>(buffer);
  const Plan& plan = programs_[program].plan;
  const PlannedBuffer& slot = plan.buffers[index];
  const bool on_host = IsOnHost(slot.region);
  if (on_host || !options_.placement) {
    return StrCat(NameOf(on_host, 0), " + ", plan.AddressOf(slot) + offset);
  }
  const PlacedBuffer& place = placed(program)->buffers[index];
  return StrCat(NameOf(false, place.region), " + ", place.offset + offset);
}

std::string Memory::Parameters(std::string_view more,
                               std::string_view qualifier) const {
  std::string list;
  for (const MemoryBlock& block : blocks_) {
    if (!block.is_parameter) continue;
    list +=
        StrCat(list.empty() ? "" : ", ", qualifier, "uint8_t *", block.name);
  }
  if (!more.empty()) list += StrCat(list.empty() ? "" : ", ", more);
  return list.empty() ? "void" : list;
}

std::string Memory::UnusedIn(std::string_view body) const {
  std::string text;
  for (const MemoryBlock& block : blocks_) {
    if (!block.is_parameter || Mentions(body, block.name)) continue;
    text += StrCat("  (void)", block.name, ";\n");
  }
  return text;
}

}  // namespace stowage::compile

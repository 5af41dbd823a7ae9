#include "report/memory_lock.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"
#include "ir/graph.h"
#include "report/numbers.h"
#include "report/text.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLockFormat = "stowage-memory-lock";
constexpr int kLockVersion = 1;
constexpr int kMaxLockLevels = 16;  // of lists and objects

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// By buffer: the source line of its first value.
std::map<std::string, std::string> SourcesOf(const PlanFile& file) {
  std::map<std::string, std::string> sources;
  const auto note = [&](int32_t buffer, const SourceLoc& source) {
    if (buffer < 0 || !source.is_known()) return;
    sources.emplace(file.plan.buffers[static_cast<size_t>(buffer)].name,
                    StrCat(source.file, ":", source.line));
  };
  for (size_t id = 0; id < file.plan.buffer_of.size(); ++id) {
    note(file.plan.buffer_of[id],
         file.graph.value(static_cast<ValueId>(id)).source);
  }
  for (size_t node = 0; node < file.plan.workspace_of.size(); ++node) {
    const auto& results = file.graph.node(static_cast<NodeId>(node)).results;
    if (results.empty()) continue;
    note(file.plan.workspace_of[node], file.graph.value(results[0]).source);
  }
  return sources;
}

// The buffers live in the arena at a time, by name.
std::vector<LockedBuffer> LiveAt(
    const Report& report, Time time,
    const std::map<std::string, std::string>& sources) {
  std::vector<LockedBuffer> live;
  for (const ReportBuffer& buffer : report.buffers) {
    const bool is_in_arena =
        std::ranges::find(kRegions, buffer.region) != std::end(kRegions);
    if (!is_in_arena || time < buffer.lower || time >= buffer.upper) continue;
    const auto source = sources.find(buffer.name);
    live.push_back({.name = buffer.name,
                    .bytes = buffer.size,
                    .source = source == sources.end() ? "" : source->second});
  }
  std::ranges::stable_sort(live, {}, &LockedBuffer::name);
  return live;
}

Error Damaged(const std::string& what) {
  return InvalidArgumentError("[lock] ", what,
                              "; expected a file that `stowage lock write` "
                              "wrote");
}

// Reads fields of an object and checks that each exists and has its type.
class Fields {
 public:
  Fields(const Json& json, std::string where)
      : json_(json), where_(std::move(where)) {}

  Result<std::string> Text(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_string()) {
      return Damaged(StrCat(where_, " lacks a text ", Quoted(name)));
    }
    return found->get<std::string>();
  }
  Result<Bytes> Size(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_number_integer() ||
        (!found->is_number_unsigned() && found->get<int64_t>() < 0) ||
        found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
      return Damaged(
          StrCat(where_, " has no whole number from 0 on as ", Quoted(name)));
    }
    return found->get<Bytes>();
  }
  Result<const Json*> Objects(const char* name) const {
    const auto found = json_.find(name);
    const bool is_list = found != json_.end() && found->is_array();
    if (!is_list || !std::ranges::all_of(*found, [](const Json& each) {
          return each.is_object();
        })) {
      return Damaged(StrCat(where_, " lacks a list of objects ", Quoted(name)));
    }
    return &*found;
  }

 private:
  const Json& json_;
  const std::string where_;
};

Result<LockedPhase> ReadPhase(const Json& json, const std::string& program) {
  LockedPhase phase;
  const Fields fields(json, StrCat("a phase of ", Quoted(program)));
  STOWAGE_ASSIGN_OR_RETURN(phase.phase, fields.Text("phase"));
  STOWAGE_ASSIGN_OR_RETURN(phase.peak, fields.Size("peak_bytes"));
  STOWAGE_ASSIGN_OR_RETURN(const Json* live, fields.Objects("live"));
  for (const Json& each : *live) {
    const Fields buffer(each, StrCat("a buffer of ", Quoted(program)));
    LockedBuffer read;
    STOWAGE_ASSIGN_OR_RETURN(read.name, buffer.Text("name"));
    STOWAGE_ASSIGN_OR_RETURN(read.bytes, buffer.Size("bytes"));
    STOWAGE_ASSIGN_OR_RETURN(read.source, buffer.Text("source"));
    phase.live.push_back(std::move(read));
  }
  return phase;
}

// Buffers by name; those of one name, as in two micro-batches, are added up.
std::map<std::string, LockedBuffer> ByName(
    const std::vector<LockedBuffer>& live) {
  std::map<std::string, LockedBuffer> by_name;
  for (const LockedBuffer& buffer : live) {
    const auto [entry, is_new] = by_name.emplace(buffer.name, buffer);
    if (!is_new) entry->second.bytes += buffer.bytes;
  }
  return by_name;
}

std::vector<GrownBuffer> GrownIn(const std::vector<LockedBuffer>& locked,
                                 const std::vector<LockedBuffer>& now) {
  const std::map<std::string, LockedBuffer> before = ByName(locked);
  std::vector<GrownBuffer> grown;
  for (const auto& [name, buffer] : ByName(now)) {
    const auto was = before.find(name);
    const Bytes bytes = was == before.end() ? 0 : was->second.bytes;
    if (buffer.bytes <= bytes) continue;
    grown.push_back({.name = name,
                     .before = bytes,
                     .now = buffer.bytes,
                     .source = buffer.source});
  }
  std::ranges::stable_sort(grown, std::greater<>(), [](const GrownBuffer& b) {
    return b.now - b.before;
  });
  return grown;
}

const LockedPhase* FindPhase(const LockedProgram& program,
                             const std::string& phase) {
  const auto found =
      std::ranges::find(program.phases, phase, &LockedPhase::phase);
  return found == program.phases.end() ? nullptr : &*found;
}

std::string Difference(Bytes before, Bytes now) {
  const Bytes more = now - before;
  return StrCat(more < 0 ? "-" : "+", more < 0 ? -more : more);
}

std::string Title(const ChangedFigure& change) {
  const bool is_phase = !change.figure.ends_with("_bytes");
  const std::string what =
      is_phase ? StrCat("peak of ", change.figure)
               : change.figure.substr(0, change.figure.find('_'));
  return StrCat(change.program, ": ", what);
}

}  // namespace

const LockedProgram* Find(const MemoryLock& lock, std::string_view name) {
  const auto found =
      std::ranges::find(lock.programs, name, &LockedProgram::name);
  return found == lock.programs.end() ? nullptr : &*found;
}

LockedProgram LockProgram(std::string name, const PlanFile& file) {
  const Report report = MakeReport(file.graph, file.plan);
  const std::map<std::string, std::string> sources = SourcesOf(file);
  LockedProgram program{.name = std::move(name),
                        .device = file.request.device,
                        .alignment = report.alignment,
                        .arena = report.arena,
                        .host = report.host,
                        .lower_bound = report.lower_bound};
  for (const Phase phase : kLockedPhases) {
    std::optional<size_t> peak;
    for (size_t node = 0; node < report.nodes.size(); ++node) {
      if (report.nodes[node].phase != phase) continue;
      if (!peak || report.live[node].total() > report.live[*peak].total()) {
        peak = node;
      }
    }
    if (!peak) continue;
    program.phases.push_back(
        {.phase = std::string(PhaseName(phase)),
         .peak = report.live[*peak].total(),
         .live = LiveAt(report, static_cast<Time>(*peak), sources)});
  }
  return program;
}

std::string ToText(const MemoryLock& lock) {
  std::string text =
      StrCat("{\"format\": ", Dump(kLockFormat),
             ", \"version\": ", kLockVersion, ", \"programs\": [");
  const char* next_program = "\n ";
  for (const LockedProgram& program : lock.programs) {
    text += StrCat(next_program, "{\"name\": ", Dump(program.name),
                   ", \"device\": ", Dump(program.device),
                   ", \"alignment\": ", program.alignment,
                   ",\n  \"arena_bytes\": ", program.arena,
                   ", \"host_bytes\": ", program.host,
                   ", \"lower_bound_bytes\": ", program.lower_bound,
                   ",\n  \"phases\": [");
    next_program = ",\n ";
    const char* next_phase = "\n   ";
    for (const LockedPhase& phase : program.phases) {
      text += StrCat(next_phase, "{\"phase\": ", Dump(phase.phase),
                     ", \"peak_bytes\": ", phase.peak, ", \"live\": [");
      next_phase = ",\n   ";
      const char* next_buffer = "\n    ";
      for (const LockedBuffer& buffer : phase.live) {
        text += StrCat(next_buffer, "{\"name\": ", Dump(buffer.name),
                       ", \"bytes\": ", buffer.bytes,
                       ", \"source\": ", Dump(buffer.source), "}");
        next_buffer = ",\n    ";
      }
      text += "]}";
    }
    text += "]}";
  }
  return text + "]}\n";
}

Result<MemoryLock> ParseMemoryLock(std::string_view text) {
  if (const Status checked = CheckJsonText(text, kMaxLockLevels);
      !checked.ok()) {
    return Damaged(StrCat("the file ", checked.error().message));
  }
  const Json json = Json::parse(text);
  if (!json.is_object()) return Damaged("the file is no JSON object");
  const Fields file(json, "the file");
  STOWAGE_ASSIGN_OR_RETURN(const std::string format, file.Text("format"));
  STOWAGE_ASSIGN_OR_RETURN(const Bytes version, file.Size("version"));
  if (format != kLockFormat || version != kLockVersion) {
    return Damaged(StrCat("the file is ", Quoted(format), " of version ",
                          version, ", and ", Quoted(std::string(kLockFormat)),
                          " of version ", kLockVersion, " is read"));
  }
  STOWAGE_ASSIGN_OR_RETURN(const Json* programs, file.Objects("programs"));
  MemoryLock lock;
  for (const Json& each : *programs) {
    LockedProgram program;
    const Fields fields(each, "a program");
    STOWAGE_ASSIGN_OR_RETURN(program.name, fields.Text("name"));
    if (Find(lock, program.name) != nullptr) {
      return Damaged(
          StrCat("the program ", Quoted(program.name), " is there twice"));
    }
    STOWAGE_ASSIGN_OR_RETURN(program.device, fields.Text("device"));
    STOWAGE_ASSIGN_OR_RETURN(program.alignment, fields.Size("alignment"));
    STOWAGE_ASSIGN_OR_RETURN(program.arena, fields.Size("arena_bytes"));
    STOWAGE_ASSIGN_OR_RETURN(program.host, fields.Size("host_bytes"));
    STOWAGE_ASSIGN_OR_RETURN(program.lower_bound,
                             fields.Size("lower_bound_bytes"));
    STOWAGE_ASSIGN_OR_RETURN(const Json* phases, fields.Objects("phases"));
    for (const Json& phase : *phases) {
      STOWAGE_ASSIGN_OR_RETURN(LockedPhase read,
                               ReadPhase(phase, program.name));
      program.phases.push_back(std::move(read));
    }
    lock.programs.push_back(std::move(program));
  }
  return lock;
}

Result<MemoryChanges> CompareLocks(const MemoryLock& locked,
                                   const MemoryLock& now) {
  for (const LockedProgram& program : now.programs) {
    if (Find(locked, program.name) != nullptr) continue;
    return InvalidArgumentError("[lock] the lock has no program ",
                                Quoted(program.name),
                                "; write it again with this one");
  }
  MemoryChanges changes;
  for (const LockedProgram& was : locked.programs) {
    const LockedProgram* const is = Find(now, was.name);
    if (is == nullptr) {
      return InvalidArgumentError("[lock] the lock has a program ",
                                  Quoted(was.name),
                                  ", and no plan of it is given; give ",
                                  was.name, "=PLAN, or write the lock again");
    }
    if (is->device != was.device || is->alignment != was.alignment) {
      return InvalidArgumentError(
          "[lock] ", Quoted(was.name), " is planned for ", is->device,
          " with slots aligned to ", is->alignment,
          ", and the lock is of a plan for ", was.device, " aligned to ",
          was.alignment,
          ", whose kernels' scratch differs; plan for that one "
          "(--device, --threads), or write the lock again");
    }
    const auto compare = [&](std::string figure, Bytes before, Bytes after,
                             std::vector<GrownBuffer> buffers) {
      if (before == after) return;
      changes.grew |= after > before;
      changes.figures.push_back({.program = was.name,
                                 .figure = std::move(figure),
                                 .before = before,
                                 .now = after,
                                 .buffers = std::move(buffers)});
    };
    compare("arena_bytes", was.arena, is->arena, {});
    compare("host_bytes", was.host, is->host, {});
    for (const Phase phase : kLockedPhases) {
      const std::string name(PhaseName(phase));
      const LockedPhase none;
      const LockedPhase* before = FindPhase(was, name);
      const LockedPhase* after = FindPhase(*is, name);
      if (before == nullptr) before = &none;
      if (after == nullptr) after = &none;
      compare(name, before->peak, after->peak,
              after->peak > before->peak ? GrownIn(before->live, after->live)
                                         : std::vector<GrownBuffer>());
    }
  }
  return changes;
}

std::string ToText(const MemoryChanges& changes, size_t limit) {
  std::string text;
  for (const ChangedFigure& change : changes.figures) {
    text += StrCat(WithoutControls(Title(change)), " ",
                   WithCommas(change.before), " -> ", WithCommas(change.now),
                   " bytes (", Difference(change.before, change.now), ")\n");
    for (size_t i = 0; i < std::min(limit, change.buffers.size()); ++i) {
      const GrownBuffer& buffer = change.buffers[i];
      text += StrCat("  ", Difference(buffer.before, buffer.now), "  ",
                     WithoutControls(buffer.name),
                     buffer.before == 0 ? ", new" : "",
                     buffer.source.empty() ? "" : ", made at ",
                     WithoutControls(buffer.source), "\n");
    }
    if (change.buffers.size() > limit) {
      text += StrCat("  and ", change.buffers.size() - limit, " more\n");
    }
  }
  return text;
}

Json ToJson(const MemoryChanges& changes) {
  Json json = {{"grew", changes.grew}, {"changes", Json::array()}};
  for (const ChangedFigure& change : changes.figures) {
    Json buffers = Json::array();
    for (const GrownBuffer& buffer : change.buffers) {
      buffers.push_back({{"name", buffer.name},
                         {"before", buffer.before},
                         {"now", buffer.now},
                         {"source", buffer.source}});
    }
    json["changes"].push_back({{"program", change.program},
                               {"figure", change.figure},
                               {"before", change.before},
                               {"now", change.now},
                               {"buffers", std::move(buffers)}});
  }
  return json;
}

std::string ToHtml(const MemoryChanges& changes) {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<title>Memory of steps, compared with the lock</title>\n<style>"
      "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
      "td,th{padding:.2em .8em;text-align:right}td:first-child,th:first-child,"
      "td:last-child,th:last-child{text-align:left}"
      ".figure{border-top:1px solid #999;font-weight:bold}"
      ".more{color:#b00}.less{color:#070}</style></head><body>\n";
  page += changes.figures.empty()
              ? "<p>Nothing changed.</p>\n"
              : "<table><tr><th>what</th><th>before</th><th>now</th>"
                "<th>difference</th><th>made at</th></tr>\n";
  const auto row = [&](std::string_view style, const std::string& what,
                       Bytes before, Bytes now, const std::string& source) {
    page += StrCat(
        "<tr class=\"", style, "\"><td>", XmlEscaped(what), "</td><td>",
        WithCommas(before), "</td><td>", WithCommas(now), "</td><td class=\"",
        now > before ? "more" : "less", "\">", Difference(before, now),
        "</td><td>", XmlEscaped(source), "</td></tr>\n");
  };
  for (const ChangedFigure& change : changes.figures) {
    row("figure", Title(change), change.before, change.now, "");
    for (const GrownBuffer& buffer : change.buffers) {
      row("buffer", buffer.name, buffer.before, buffer.now, buffer.source);
    }
  }
  if (!changes.figures.empty()) page += "</table>\n";
  return page + "</body></html>\n";
}

}  // namespace stowage

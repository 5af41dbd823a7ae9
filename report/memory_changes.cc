#include "report/memory_changes.h"

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "report/text.h"

namespace stowage {
namespace {

using Json = nlohmann::ordered_json;

// Buffers of one name, as those of two micro-batches, count together.
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

}  // namespace

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

namespace {

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

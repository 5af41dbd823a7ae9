#include "base/run_files.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/strings.h"

namespace stowage {
namespace {

// Places that are numbered, and what they were claimed as.
struct Series {
  std::string path, prefix, suffix;

  bool Has(std::string_view place) const {
    if (place.size() <= prefix.size() + suffix.size() ||
        !place.starts_with(prefix) || !place.ends_with(suffix)) {
      return false;
    }
    place.remove_prefix(prefix.size());
    place.remove_suffix(suffix.size());
    return place.find_first_not_of("0123456789") == std::string_view::npos;
  }
};

struct RunFiles {
  std::mutex mutex;
  bool keeps_inputs = false;
  // By place, its links followed: as they were opened, and as they were claimed.
  std::map<std::string, std::string> inputs, outputs;
  std::unordered_set<std::string> input_names;  // as they were opened, too
  std::vector<Series> series;
  std::map<std::string, std::string> folders;  // by place: as they were named
};

RunFiles& Files() {
  static RunFiles files;
  return files;
}

Error Clash(const std::string& path, std::string_view what) {
  return {ErrorCode::kInvalidArgument, StrCat("[file] ", Quoted(path), what)};
}

// `path` is to be read, and the run would write over it as `claimed`.
Error IsOutput(const std::string& path, const std::string& claimed) {
  return Clash(path, StrCat(" is read by this run, and is ", Quoted(claimed),
                            ", which it would write over; an input is never "
                            "written over, write to another file"));
}

// `path` is to be written, and the run reads it as `input`.
Error IsInput(const std::string& path, const std::string& input) {
  return Clash(
      path, StrCat(" cannot be written: this run reads it, as ", Quoted(input),
                   "; an input is never written over, write to "
                   "another file"));
}

// `output` and the numbered files of `series` have one place.
Error IsOfSeries(const std::string& output, const Series& series) {
  return Clash(output, StrCat(" has a name that checkpoints of steps of ",
                              Quoted(series.path),
                              " take; give each output a name of its own"));
}

// `output` is to be a file, and the run makes a folder there, of or for `folder`.
Error IsFolder(const std::string& output, const std::string& folder) {
  return Clash(output,
               StrCat(" is to be a file, and a folder by that name is made "
                      "for ",
                      Quoted(folder), "; give each output a name of its own"));
}

}  // namespace

void KeepInputs() {
  const std::lock_guard lock(Files().mutex);
  Files().keeps_inputs = true;
}

Status NoteInput(const std::string& path) {
  RunFiles& files = Files();
  const std::lock_guard lock(files.mutex);
  if (!files.keeps_inputs) return {};
  // Images are read in every epoch. A place that is noted is never claimed.
  if (files.input_names.contains(path)) return {};
  std::error_code failed;
  const std::string place = std::filesystem::canonical(path, failed).string();
  if (failed) return {};  // it is gone already
  const auto output = files.outputs.find(place);
  if (output != files.outputs.end()) return IsOutput(path, output->second);
  for (const Series& series : files.series) {
    if (!series.Has(place)) continue;
    return Clash(path, StrCat(" is read by this run, and has a name that "
                              "checkpoints of steps of ",
                              Quoted(series.path),
                              " take, which it would write over; an input is "
                              "never written over, save to another file"));
  }
  files.inputs.emplace(place, path);
  files.input_names.insert(path);
  return {};
}

Status NoteOutput(const std::string& path, const std::string& place) {
  RunFiles& files = Files();
  const std::lock_guard lock(files.mutex);
  if (!files.keeps_inputs) return {};
  const auto input = files.inputs.find(place);
  if (input != files.inputs.end()) return IsInput(path, input->second);
  for (const Series& series : files.series) {
    if (series.Has(place)) return IsOfSeries(path, series);
  }
  const auto folder = files.folders.find(place);
  if (folder != files.folders.end()) return IsFolder(path, folder->second);
  files.outputs.emplace(place, path);
  return {};
}

Status NoteOutputs(const std::string& path, const std::string& prefix,
                   const std::string& suffix) {
  RunFiles& files = Files();
  const std::lock_guard lock(files.mutex);
  if (!files.keeps_inputs) return {};
  const Series series = {path, prefix, suffix};
  for (const auto& [place, input] : files.inputs) {
    if (series.Has(place)) {
      return Clash(input, StrCat(" is read by this run, and has a name that "
                                 "checkpoints of steps of ",
                                 Quoted(path),
                                 " take, which it would write over; an input "
                                 "is never written over, save to another "
                                 "file"));
    }
  }
  for (const auto& [place, claimed] : files.outputs) {
    if (series.Has(place)) return IsOfSeries(claimed, series);
  }
  for (const auto& [place, folder] : files.folders) {
    if (series.Has(place)) return IsFolder(path, folder);
  }
  files.series.push_back(series);
  return {};
}

Status NoteFolder(const std::string& path) {
  RunFiles& files = Files();
  const std::lock_guard lock(files.mutex);
  if (!files.keeps_inputs) return {};
  std::error_code failed;
  std::filesystem::path place = std::filesystem::weakly_canonical(path, failed);
  if (failed) return {};  // to make it says why
  if (place.filename().empty()) place = place.parent_path();
  for (; place.has_relative_path(); place = place.parent_path()) {
    const auto output = files.outputs.find(place.string());
    if (output != files.outputs.end()) return IsFolder(output->second, path);
    for (const Series& series : files.series) {
      if (series.Has(place.string())) return IsFolder(series.path, path);
    }
    files.folders.emplace(place.string(), path);
  }
  return {};
}

}  // namespace stowage

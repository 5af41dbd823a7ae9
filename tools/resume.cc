#include "tools/resume.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "autodiff/optimizer.h"
#include "base/hash.h"
#include "base/strings.h"
#include "text/text.h"
#include "tools/command.h"

namespace stowage::tools {
namespace {

constexpr std::string_view kOptimizer = "optimizer";

// The file's name and what is in it, in brief.
Result<std::string> DataNote(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  return StrCat(std::filesystem::path(path).filename().string(), " (",
                content.size(), " bytes, XXH64 ", HexDigest(Xxh64(content)),
                ")");
}

// The folder's name and what is in it.
std::string FolderNote(const std::string& path, const PictureData& data) {
  const PictureShape& shape = data.shape;
  std::string note =
      StrCat(std::filesystem::weakly_canonical(path).filename().string(), " (",
             data.train.size(), " + ", data.held_out.size(), " pictures, ",
             shape.channels, " x ", shape.height, " x ", shape.width, ", ",
             shape.classes, " classes, means");
  for (const float mean : data.mean) note += StrCat(" ", mean);
  return note + ")";
}

}  // namespace

Result<RunNotes> NotesOf(const StepSpec& spec, const RunSpec& run,
                         const RunFlags& flags) {
  RunNotes notes;
  const auto add = [&](std::string_view name, const auto& value) {
    notes.emplace_back(name, StrCat(value));
  };
  add("model", spec.info.name);
  add(kOptimizer, OptimizerName(spec.training.training.optimizer));
  add("seed", flags.seed);
  add("lr", run.schedule.peak);
  add("steps", run.steps);
  add("batch", *spec.options.batch);
  if (spec.options.seq) add("seq", *spec.options.seq);
  if (spec.tokenizer) {
    add("tokenizer",
        StrCat(std::filesystem::path(flags.tokenizer).filename().string(), " (",
               spec.tokenizer->size(), " tokens)"));
  }
  std::error_code ignored;
  if (spec.pictures != nullptr &&
      std::filesystem::is_directory(flags.data, ignored)) {
    add("data", FolderNote(flags.data, *spec.pictures));
    return notes;
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string data, DataNote(flags.data));
  add("data", data);
  return notes;
}

Result<std::string> CompareNotes(const CheckpointInfo& saved,
                                 const RunNotes& notes,
                                 const std::string& path) {
  std::string lines;
  for (const auto& [name, value] : notes) {
    const std::string* const was = saved.Find(name);
    if (was == nullptr || *was == value) continue;
    if (name == kOptimizer) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[resume] ", Quoted(path), " is of a run with --optimizer ",
                 *was, ", this one has ", value,
                 ", which cannot go on with its states; give "
                 "--optimizer ",
                 *was)};
    }
    lines += StrCat("resume: ", name, " was ", *was, ", is ", value, "\n");
  }
  return lines;
}

}  // namespace stowage::tools

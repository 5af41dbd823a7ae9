#include "runtime/checkpoint.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"
#include "base/strings.h"
#include "formats/array.h"
#include "formats/npz.h"
#include "formats/safetensors.h"
#include "formats/safetensors_file.h"
#include "ir/op_def.h"
#include "runtime/all_or_none.h"
#include "runtime/finite.h"
#include "runtime/parts.h"
#include "runtime/weight_values.h"

namespace stowage {
namespace {

constexpr std::string_view kFormat = "stowage-checkpoint-1";
// Metadata that is not a note.
constexpr std::string_view kBase = "base";
constexpr std::array<std::string_view, 5> kOwnNames = {
    "format", "step", "params", kBase, "fnv1a64"};

bool IsOwnName(std::string_view name) {
  return std::ranges::find(kOwnNames, name) != kOwnNames.end();
}

std::string Hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

// What a checkpoint of `graph` holds: its params, then its states.
std::vector<ValueId> PersistentValues(const Graph& graph) {
  std::vector<ValueId> values = graph.Leaves(Role::kParam);
  for (const ValueId id : graph.Leaves(Role::kState)) values.push_back(id);
  return values;
}

// Whether a step of `graph` changes its params or states.
bool Updates(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return GetOpDef(node.op).updates > 0;
  });
}

// Of all that a digest covers but the data: step, number of params, base, notes, names,
// types and ranges.
Fnv1a BeginDigest(const SafetensorsHeader& header) {
  Fnv1a hash;
  hash.Update(StrCat("step ", *header.Find("step"), ";params ",
                     *header.Find("params"), ";"));
  if (const std::string* const base = header.Find(kBase)) {
    hash.Update(StrCat("base ", Quoted(*base), ";"));
  }
  for (const auto& [name, text] : header.metadata) {
    if (IsOwnName(name)) continue;
    hash.Update(StrCat("note ", Quoted(name), Quoted(text), ";"));
  }
  for (const SafeTensor& tensor : header.tensors) {
    hash.Update(StrCat(Quoted(tensor.name), tensor.type.ToString(),
                       tensor.begin, ",", tensor.end, ";"));
  }
  return hash;
}

// That no element is NaN or infinite in a part of a value, which begins at byte `begin`.
Status CheckFinite(const Runner& runner, const ValueInfo& value, Bytes begin,
                   std::span<const std::byte> part) {
  const DType dtype = value.type.dtype;
  const std::optional<int64_t> index = FindNonFinite(dtype, part);
  if (!index) return {};
  return Error{ErrorCode::kNotFinite,
               StrCat("[checkpoint] the ", RoleName(value.role), " ",
                      Quoted(value.name), " of program ", Quoted(runner.name()),
                      " is ", FloatText(dtype, part, *index), " at element ",
                      begin / SizeOf(dtype) + *index, " of ",
                      value.type.shape.num_elements())};
}

// The same of whole values, before they replace what `file` holds; `also`, if it is not
// null, takes each part.
Status CheckFinite(const Runner& runner, const std::vector<ValueId>& values,
                   const OutputFile& file, Fnv1a* also = nullptr) {
  for (const ValueId id : values) {
    const ValueInfo& value = runner.graph().value(id);
    const Status finite = ReadInParts(
        runner, value,
        [&](Bytes begin, std::span<const std::byte> part) -> Status {
          if (also != nullptr) also->Update(part);
          return CheckFinite(runner, value, begin, part);
        });
    if (finite.ok()) continue;
    return Error{finite.error().code,
                 StrCat(finite.error().message, "; ", Quoted(file.path()),
                        " is not written, and what it held before is still "
                        "there")};
  }
  return {};
}

// The values as tensors, one after the other.
SafetensorsHeader HeaderOf(const Graph& graph,
                           const std::vector<ValueId>& values) {
  SafetensorsHeader header;
  Bytes end = 0;
  for (const ValueId id : values) {
    const ValueInfo& value = graph.value(id);
    const Bytes begin = end;
    end += value.type.bytes();
    header.tensors.push_back({value.name, value.type, begin, end});
  }
  return header;
}

Status Write(const Runner& runner, const std::vector<ValueId>& values,
             const SafetensorsHeader& header, const OutputFile& file) {
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  return file.ReplaceBy([&](const OutputFile::WritePart& write) -> Status {
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(&length, 1))));
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(text))));
    for (const ValueId id : values) {
      STOWAGE_RETURN_IF_ERROR(ReadInParts(
          runner, runner.graph().value(id),
          [&](Bytes, std::span<const std::byte> part) { return write(part); }));
    }
    return {};
  });
}

// An archive, which is made whole before it is written.
Status WriteNpz(const Runner& runner, const std::vector<ValueId>& values,
                const OutputFile& file) {
  std::vector<NamedArray> arrays;
  for (const ValueId id : values) {
    const ValueInfo& value = runner.graph().value(id);
    arrays.push_back({value.name, {.type = value.type, .bytes = {}}});
    Array& array = arrays.back().array;
    array.bytes.resize(static_cast<size_t>(value.type.bytes()));
    STOWAGE_RETURN_IF_ERROR(
        runner.ReadBytes(value.name, value.type.dtype, array.data()));
  }
  STOWAGE_ASSIGN_OR_RETURN(const std::string archive, NpzBytes(arrays));
  return file.Replace(archive);
}

}  // namespace

Status CheckFinite(const Runner& runner) {
  const Graph& graph = runner.graph();
  for (const ValueId id : PersistentValues(graph)) {
    const ValueInfo& value = graph.value(id);
    if (!IsFloat(value.type.dtype)) continue;
    STOWAGE_RETURN_IF_ERROR(ReadInParts(
        runner, value, [&](Bytes begin, std::span<const std::byte> part) {
          return CheckFinite(runner, value, begin, part);
        }));
  }
  return {};
}

Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step, const RunNotes& notes,
                      const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(path));
  return SaveCheckpoint(runner, file, step, notes, base);
}

Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step, const RunNotes& notes,
                      const CheckpointBase& base) {
  const auto invalid = [&](std::string_view message) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[checkpoint] ", Quoted(file.path()), " ", message)};
  };
  if (step < 0 || step > kMaxCheckpointStep) {
    return invalid(StrCat("cannot be of step ", step, "; expected 0 to ",
                          kMaxCheckpointStep));
  }
  for (const auto& [name, text] : notes) {
    if (!IsOwnName(name)) continue;
    return invalid(
        StrCat("has metadata of its own called ", Quoted(name),
               ", which a note cannot be; give the note another name"));
  }
  const Graph& graph = runner.graph();
  std::vector<ValueId> saved = PersistentValues(graph);
  const std::unordered_set<std::string_view> left_out(base.params.begin(),
                                                      base.params.end());
  std::erase_if(saved, [&](ValueId id) {
    const ValueInfo& value = graph.value(id);
    return value.role == Role::kParam && left_out.contains(value.name);
  });
  const auto params = std::ranges::count_if(
      saved, [&](ValueId id) { return graph.value(id).role == Role::kParam; });
  SafetensorsHeader header = HeaderOf(graph, saved);
  header.metadata = {{"format", std::string(kFormat)},
                     {"step", StrCat(step)},
                     {"params", StrCat(params)}};
  if (!left_out.empty()) header.metadata.emplace_back(kBase, base.content);
  header.metadata.insert(header.metadata.end(), notes.begin(), notes.end());
  Fnv1a digest = BeginDigest(header);
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner, saved, file, &digest));
  header.metadata.emplace_back("fnv1a64", Hex(digest.digest()));
  return Write(runner, saved, header, file);
}

Status SaveWeights(const Runner& runner, const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(path));
  return SaveWeights(runner, file);
}

Status SaveWeights(const Runner& runner, const OutputFile& file) {
  const std::vector<ValueId> values = WeightValues(runner.graph());
  STOWAGE_RETURN_IF_ERROR(CheckFinite(runner, values, file));
  if (file.path().ends_with(".npz")) return WriteNpz(runner, values, file);
  SafetensorsHeader header = HeaderOf(runner.graph(), values);
  // As PyTorch's writer notes it, for readers that ask.
  header.metadata = {{"format", "pt"}};
  return Write(runner, values, header, file);
}

namespace {

struct Checkpoint {
  SafetensorsFile file;
  CheckpointInfo info;
  int64_t params = 0;  // the first tensors; the others are states

  const std::vector<SafeTensor>& tensors() const {
    return file.header().tensors;
  }
};

// Opens the file and checks what its header says, which needs no graph.
Result<Checkpoint> OpenCheckpoint(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(SafetensorsFile file,
                           SafetensorsFile::Open(path, "checkpoint"));
  const SafetensorsHeader& header = file.header();
  const std::string* const format = header.Find("format");
  const std::string* const step = header.Find("step");
  const std::string* const params = header.Find("params");
  if (format == nullptr || *format != kFormat || step == nullptr ||
      params == nullptr || header.Find("fnv1a64") == nullptr) {
    return file.Fail(
        StrCat("is not of the format ", Quoted(kFormat),
               "; only files that Stowage saved can be resumed, the weights "
               "of others can be loaded (docs/runs_and_weights.md)"));
  }
  Checkpoint checkpoint{std::move(file), {}};
  const auto is_number = [](const std::string& text, int64_t* number) {
    const char* const end = text.data() + text.size();
    const auto [after, code] = std::from_chars(text.data(), end, *number);
    return code == std::errc() && after == end;
  };
  const std::vector<SafeTensor>& tensors = checkpoint.tensors();
  if (!is_number(*checkpoint.file.header().Find("step"),
                 &checkpoint.info.step) ||
      checkpoint.info.step < 0 || checkpoint.info.step > kMaxCheckpointStep) {
    return checkpoint.file.Fail(
        StrCat("is of step ", Quoted(*checkpoint.file.header().Find("step")),
               "; expected a number from 0 to ", kMaxCheckpointStep));
  }
  if (!is_number(*checkpoint.file.header().Find("params"),
                 &checkpoint.params) ||
      checkpoint.params < 0 || checkpoint.params > std::ssize(tensors)) {
    return checkpoint.file.Fail(
        StrCat("has ", Quoted(*checkpoint.file.header().Find("params")),
               " params among ", tensors.size(),
               " tensors; expected a number from ", 0, " to ", tensors.size()));
  }
  for (const SafeTensor& tensor : tensors) {
    if (tensor.foreign.empty()) continue;
    return checkpoint.file.Fail(StrCat("has ", Quoted(tensor.name), " as ",
                                       tensor.foreign,
                                       ", which no checkpoint holds"));
  }
  for (const auto& [name, text] : checkpoint.file.header().metadata) {
    if (!IsOwnName(name)) checkpoint.info.notes.emplace_back(name, text);
  }
  return checkpoint;
}

// That what the checkpoint leaves out is what `base` has.
Status CheckBase(const Checkpoint& checkpoint, const CheckpointBase& base) {
  const std::string* const saved = checkpoint.file.header().Find(kBase);
  if (saved == nullptr || *saved == base.content) return {};
  return checkpoint.file.Fail(
      StrCat("is of params trained beside a base that it leaves out, ", *saved,
             base.content.empty() ? "; here there is no base"
                                  : StrCat("; the base here is ", base.content),
             "; resume beside the files that it was trained with"));
}

// That the tensors are what `runner`'s graph has, but for what `base` has instead.
Status CheckTensors(const Checkpoint& checkpoint, const Runner& runner,
                    const CheckpointBase& base) {
  const Graph& graph = runner.graph();
  const std::string program = StrCat("program ", Quoted(runner.name()));
  std::unordered_map<std::string_view, size_t> saved;
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    saved.emplace(checkpoint.tensors()[i].name, i);
  }
  const auto role_of = [&](size_t index) {
    return static_cast<int64_t>(index) < checkpoint.params ? Role::kParam
                                                           : Role::kState;
  };
  // What a checkpoint without a base lacks, no base makes good.
  std::unordered_set<std::string_view> left_out;
  if (checkpoint.file.header().Find(kBase) != nullptr) {
    left_out.insert(base.params.begin(), base.params.end());
  }
  std::unordered_set<std::string_view> known;
  for (const ValueId id : PersistentValues(graph)) {
    const ValueInfo& value = graph.value(id);
    known.insert(value.name);
    const auto found = saved.find(value.name);
    if (found == saved.end()) {
      if (value.role == Role::kParam && left_out.contains(value.name)) continue;
      return checkpoint.file.Fail(
          StrCat("lacks the ", RoleName(value.role), " ", Quoted(value.name),
                 " of ", program, "; it is of another model or optimizer"));
    }
    const SafeTensor& tensor = checkpoint.tensors()[found->second];
    if (tensor.type != value.type) {
      return checkpoint.file.Fail(StrCat(
          "has ", Quoted(value.name), " as ", tensor.type.ToString(), ", ",
          program, " has ", value.type.ToString(), "; it is of another model"));
    }
    if (role_of(found->second) != value.role) {
      return checkpoint.file.Fail(
          StrCat("has ", checkpoint.params, " params, so that ",
                 Quoted(value.name), " is a ", RoleName(role_of(found->second)),
                 "; in ", program, " it is a ", RoleName(value.role)));
    }
  }
  // What evaluates may leave an optimizer's states unread; anything else that it
  // does not know means another model or optimizer.
  const bool leaves_states = !Updates(graph);
  for (size_t i = 0; i < checkpoint.tensors().size(); ++i) {
    const SafeTensor& tensor = checkpoint.tensors()[i];
    if (known.contains(tensor.name)) continue;
    if (role_of(i) == Role::kState && leaves_states) continue;
    return checkpoint.file.Fail(StrCat(
        "has a ", RoleName(role_of(i)), " ", Quoted(tensor.name), " that ",
        program, " lacks; it is of another model or optimizer"));
  }
  return {};
}

// A hash of each part of each tensor, by which it is known again: 8 bytes a part.
using PartHashes = std::vector<std::vector<uint64_t>>;

uint64_t HashOf(std::span<const std::byte> part) {
  return Xxh64({reinterpret_cast<const char*>(part.data()), part.size()});
}

// Reads all of the data. Tensors cover it in their order.
Result<PartHashes> CheckDigest(const Checkpoint& checkpoint) {
  const SafetensorsFile& file = checkpoint.file;
  Fnv1a digested = BeginDigest(file.header());
  PartHashes hashes;
  for (const SafeTensor& tensor : checkpoint.tensors()) {
    std::vector<uint64_t>& of_tensor = hashes.emplace_back();
    STOWAGE_RETURN_IF_ERROR(InParts(
        tensor.end - tensor.begin,
        [&](Bytes begin, std::span<std::byte> part) -> Status {
          STOWAGE_RETURN_IF_ERROR(file.Read(tensor.begin + begin, part));
          digested.Update(part);
          of_tensor.push_back(HashOf(part));
          return {};
        }));
  }
  const std::string actual = Hex(digested.digest());
  const std::string& digest = *file.header().Find("fnv1a64");
  if (actual == digest) return hashes;
  return file.Fail(StrCat("is damaged: its content has the digest ", actual,
                          ", it was saved with ", digest));
}

// Writes a tensor that was checked, once more and part by part.
Status WriteTensor(const Checkpoint& checkpoint, const SafeTensor& tensor,
                   const std::vector<uint64_t>& hashes, Runner& runner) {
  const SafetensorsFile& file = checkpoint.file;
  return InParts(
      tensor.end - tensor.begin,
      [&](Bytes begin, std::span<std::byte> part) -> Status {
        STOWAGE_RETURN_IF_ERROR(file.Read(tensor.begin + begin, part));
        if (HashOf(part) != hashes[static_cast<size_t>(begin / kPartBytes)]) {
          return file.Fail(StrCat("has changed while it was read, in ",
                                  Quoted(tensor.name), " behind byte ", begin),
                           ErrorCode::kIo);
        }
        return runner.WritePart(tensor.name, tensor.type.dtype, begin, part);
      });
}

}  // namespace

const std::string* CheckpointInfo::Find(std::string_view name) const {
  for (const auto& [key, text] : notes) {
    if (key == name) return &text;
  }
  return nullptr;
}

Result<std::optional<int64_t>> CheckpointParams(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const SafetensorsFile file,
                           SafetensorsFile::Open(path, "checkpoint"));
  const std::string* const format = file.header().Find("format");
  if (format == nullptr || *format != kFormat) return std::optional<int64_t>();
  STOWAGE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint(path));
  return std::optional<int64_t>(checkpoint.params);
}

Result<CheckpointInfo> ReadCheckpointInfo(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(Checkpoint checkpoint, OpenCheckpoint(path));
  return std::move(checkpoint.info);
}

Status CheckCheckpoint(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint(path));
  const Result<PartHashes> hashes = CheckDigest(checkpoint);
  return hashes.ok() ? Status() : hashes.error();
}

Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path,
                               const CheckpointBase& base) {
  STOWAGE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint(path));
  const Graph& graph = runner.graph();
  // Before the data: what fits no model here need not be read, however large.
  STOWAGE_RETURN_IF_ERROR(CheckBase(checkpoint, base));
  STOWAGE_RETURN_IF_ERROR(CheckTensors(checkpoint, runner, base));
  // All of it is checked before any of it is taken.
  STOWAGE_ASSIGN_OR_RETURN(const PartHashes hashes, CheckDigest(checkpoint));
  std::unordered_set<std::string_view> known;
  for (const ValueId id : PersistentValues(graph)) {
    known.insert(graph.value(id).name);
  }
  std::vector<std::string> names;
  for (const SafeTensor& tensor : checkpoint.tensors()) {
    if (known.contains(tensor.name)) names.push_back(tensor.name);
  }
  STOWAGE_RETURN_IF_ERROR(AllOrNone(runner, names, [&]() -> Status {
    for (size_t i = 0; i < hashes.size(); ++i) {
      const SafeTensor& tensor = checkpoint.tensors()[i];
      if (!known.contains(tensor.name)) continue;  // an optimizer's
      STOWAGE_RETURN_IF_ERROR(
          WriteTensor(checkpoint, tensor, hashes[i], runner));
    }
    return {};
  }));
  return checkpoint.info.step;
}

}  // namespace stowage

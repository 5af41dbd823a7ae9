#include "runtime/checkpoint.h"

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/hash.h"
#include "base/strings.h"
#include "runtime/safetensors.h"

namespace stowage {
namespace {

constexpr std::string_view kFormat = "stowage-checkpoint-1";
constexpr Bytes kMaxHeaderBytes = 100'000'000;  // the format's own limit
static_assert(std::endian::native == std::endian::little,
              "checkpoints hold little-endian bytes");

Error Fail(const std::string& path, std::string_view message,
           ErrorCode code = ErrorCode::kInvalidArgument) {
  return {code, StrCat("[checkpoint] ", Quoted(path), " ", message)};
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

// The digest covers everything but itself: step, number of params, names,
// types, ranges and data.
uint64_t Digest(const SafetensorsHeader& header, std::string_view step,
                std::string_view params, std::span<const std::byte> data) {
  Fnv1a hash;
  hash.Update(StrCat("step ", step, ";params ", params, ";"));
  for (const SafeTensor& tensor : header.tensors) {
    hash.Update(StrCat(Quoted(tensor.name), tensor.type.ToString(),
                       tensor.begin, ",", tensor.end, ";"));
  }
  hash.Update(data);
  return hash.digest();
}

}  // namespace

Status SaveCheckpoint(const Runner& runner, const std::string& path,
                      int64_t step) {
  STOWAGE_ASSIGN_OR_RETURN(const OutputFile file, OutputFile::Claim(path));
  return SaveCheckpoint(runner, file, step);
}

Status SaveCheckpoint(const Runner& runner, const OutputFile& file,
                      int64_t step) {
  const Graph& graph = runner.graph();
  SafetensorsHeader header;
  std::vector<std::byte> data;
  for (const ValueId id : PersistentValues(graph)) {
    const ValueInfo& value = graph.value(id);
    const auto begin = static_cast<Bytes>(data.size());
    data.resize(data.size() + static_cast<size_t>(value.type.bytes()));
    header.tensors.push_back(
        {value.name, value.type, begin, static_cast<Bytes>(data.size())});
    STOWAGE_RETURN_IF_ERROR(
        runner.ReadBytes(value.name, value.type.dtype,
                         std::span(data).subspan(static_cast<size_t>(begin))));
  }
  const std::string step_text = StrCat(step);
  const std::string params_text = StrCat(graph.Leaves(Role::kParam).size());
  header.metadata = {
      {"format", std::string(kFormat)},
      {"step", step_text},
      {"params", params_text},
      {"fnv1a64", Hex(Digest(header, step_text, params_text, data))}};
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();

  return file.Replace({std::as_bytes(std::span(&length, 1)),
                       std::as_bytes(std::span(text)), std::span(data)});
}

namespace {

struct Checkpoint {
  SafetensorsHeader header;
  int64_t step = 0;
  int64_t params = 0;  // the first tensors; the others are states
  std::vector<std::byte> data;
};

// Reads the file and checks everything that needs no graph.
Result<Checkpoint> ReadCheckpoint(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return Fail(path, StrCat("cannot be opened: ", std::strerror(errno)),
                errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo);
  }
  const auto size = static_cast<Bytes>(file.tellg());
  uint64_t length = 0;
  file.seekg(0);
  if (size >= 8 && !file.read(reinterpret_cast<char*>(&length), 8)) {
    return Fail(path, StrCat("cannot be read: ", std::strerror(errno)),
                ErrorCode::kIo);
  }
  if (size < 8) {
    return Fail(path, StrCat("has ", size,
                             " bytes, too few for a checkpoint; it is "
                             "truncated or no checkpoint"));
  }
  if (length > static_cast<uint64_t>(kMaxHeaderBytes) ||
      static_cast<Bytes>(length) > size - 8) {
    return Fail(path, StrCat("states a header of ", length, " bytes and has ",
                             size, "; it is truncated or no checkpoint"));
  }
  std::string text(length, '\0');
  Checkpoint checkpoint;
  checkpoint.data.resize(static_cast<size_t>(size - 8) - length);
  if (!file.read(text.data(), static_cast<std::streamsize>(length)) ||
      !file.read(reinterpret_cast<char*>(checkpoint.data.data()),
                 static_cast<std::streamsize>(checkpoint.data.size()))) {
    return Fail(path, "cannot be read to its end", ErrorCode::kIo);
  }
  auto header =
      ParseSafetensorsHeader(text, static_cast<Bytes>(checkpoint.data.size()));
  if (!header.ok())
    return Fail(path, StrCat("is damaged: ", header.error().message));
  checkpoint.header = std::move(*header);

  const std::string* format = checkpoint.header.Find("format");
  const std::string* step = checkpoint.header.Find("step");
  const std::string* params = checkpoint.header.Find("params");
  const std::string* digest = checkpoint.header.Find("fnv1a64");
  if (format == nullptr || *format != kFormat || step == nullptr ||
      params == nullptr || digest == nullptr) {
    return Fail(path, StrCat("is not of the format ", Quoted(kFormat),
                             "; only files that Stowage saved can be resumed"));
  }
  const auto is_number = [](const std::string& text, int64_t* number) {
    const char* const end = text.data() + text.size();
    const auto [after, code] = std::from_chars(text.data(), end, *number);
    return code == std::errc() && after == end;
  };
  if (!is_number(*step, &checkpoint.step) ||
      !is_number(*params, &checkpoint.params)) {
    return Fail(path, StrCat("has step ", Quoted(*step), " and ",
                             Quoted(*params), " params; expected numbers"));
  }
  const std::string actual =
      Hex(Digest(checkpoint.header, *step, *params, checkpoint.data));
  if (actual != *digest) {
    return Fail(path, StrCat("is damaged: its content has the digest ", actual,
                             ", it was saved with ", *digest));
  }
  return checkpoint;
}

}  // namespace

Result<int64_t> LoadCheckpoint(Runner& runner, const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(const Checkpoint checkpoint, ReadCheckpoint(path));
  const Graph& graph = runner.graph();
  std::unordered_map<std::string_view, const SafeTensor*> saved;
  for (const SafeTensor& tensor : checkpoint.header.tensors) {
    saved.emplace(tensor.name, &tensor);
  }
  const std::vector<ValueId> values = PersistentValues(graph);
  for (const ValueId id : values) {
    const ValueInfo& value = graph.value(id);
    const auto found = saved.find(value.name);
    if (found == saved.end()) {
      return Fail(path, StrCat("lacks the ", RoleName(value.role), " ",
                               Quoted(value.name), " of program ",
                               Quoted(runner.name()),
                               "; it is of another model or optimizer"));
    }
    if (found->second->type != value.type) {
      return Fail(path,
                  StrCat("has ", Quoted(value.name), " as ",
                         found->second->type.ToString(), ", program ",
                         Quoted(runner.name()), " has ", value.type.ToString(),
                         "; it is of another model"));
    }
  }
  // A program without states may leave a training checkpoint's states unread;
  // anything else that it does not know means another model.
  const bool has_states = !graph.Leaves(Role::kState).empty();
  std::unordered_set<std::string_view> known;
  for (const ValueId id : values) known.insert(graph.value(id).name);
  for (size_t i = 0; i < checkpoint.header.tensors.size(); ++i) {
    const SafeTensor& tensor = checkpoint.header.tensors[i];
    const bool is_state = static_cast<int64_t>(i) >= checkpoint.params;
    if (known.contains(tensor.name) || (is_state && !has_states)) continue;
    return Fail(
        path,
        StrCat("has a ", RoleName(is_state ? Role::kState : Role::kParam), " ",
               Quoted(tensor.name), " that program ", Quoted(runner.name()),
               " lacks; it is of another model or optimizer"));
  }
  for (const ValueId id : values) {
    const ValueInfo& value = graph.value(id);
    const SafeTensor& tensor = *saved.at(value.name);
    STOWAGE_RETURN_IF_ERROR(runner.WriteBytes(
        value.name, value.type.dtype,
        std::span(checkpoint.data)
            .subspan(static_cast<size_t>(tensor.begin),
                     static_cast<size_t>(tensor.end - tensor.begin))));
  }
  return checkpoint.step;
}

}  // namespace stowage

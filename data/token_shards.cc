#include "data/token_shards.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/npy.h"

namespace stowage {

namespace {

constexpr Bytes kHeaderBytes = 256 * 4;

struct LlmCFormat {
  int32_t magic, version;
  int width;
};
// llm.c, dev/data/data_common.py, write_datafile.
constexpr std::array<LlmCFormat, 2> kLlmC = {
    {{20240520, 1, 2}, {20240801, 7, 4}}};

bool IsTokenFile(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  return EndsWithAnyCase(name, ".bin") || EndsWithAnyCase(name, ".npy");
}

// Whether a word of a file's name marks it as validation data.
bool NamesHeldOut(const std::string& name) {
  constexpr std::array<std::string_view, 5> kWords = {
      "val", "valid", "validation", "test", "eval"};
  std::string word;
  for (const char c : name + '.') {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    if (std::ranges::find(kWords, word) != kWords.end()) return true;
    word.clear();
  }
  return false;
}

// The files of a folder, sorted by name; `path` itself if it is no folder.
std::vector<std::string> FilesAt(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_directory(path, failed)) return {path};
  std::vector<std::string> files;
  for (std::filesystem::directory_iterator at(path, failed), end;
       !failed && at != end; at.increment(failed)) {
    if (IsTokenFile(at->path()) && at->is_regular_file(failed)) {
      files.push_back(at->path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

// Whether bytes are text; those of tokens below 256 include zeros.
bool IsText(std::string_view bytes) {
  return !bytes.empty() && std::ranges::all_of(bytes, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= ' ' || byte == '\n' || byte == '\r' || byte == '\t';
  });
}

int64_t TokensOf(std::span<const TokenShards::Part> parts) {
  int64_t tokens = 0;
  for (const TokenShards::Part& part : parts) tokens += part.tokens;
  return tokens;
}

}  // namespace

bool TokenShards::Reads(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) {
    return !FilesAt(path).empty();
  }
  return IsTokenFile(path);
}

Result<TokenShards> TokenShards::Open(const std::string& path,
                                      int64_t vocabulary) {
  TokenShards shards(vocabulary);
  std::vector<bool> is_held_out;
  for (const std::string& file : FilesAt(path)) {
    STOWAGE_RETURN_IF_ERROR(shards.Add(file));
    is_held_out.push_back(
        NamesHeldOut(std::filesystem::path(file).filename().string()));
  }
  if (shards.files_.empty()) {
    return InvalidArgumentError("[data] the folder ", Quoted(path),
                                " has no *.bin or *.npy file of tokens");
  }
  // A single file is split, whatever its name.
  if (shards.files_.size() == 1) is_held_out = {false};
  STOWAGE_RETURN_IF_ERROR(shards.Split(is_held_out, path));
  return shards;
}

Status TokenShards::Add(const std::string& path) {
  STOWAGE_ASSIGN_OR_RETURN(InputFile input, InputFile::Open(path, "data"));
  File file{.file = std::move(input), .format = "u16 without a header"};
  std::string beginning(
      static_cast<size_t>(std::min<Bytes>(file.file.size(), 64 << 10)), '\0');
  STOWAGE_RETURN_IF_ERROR(file.file.ReadAt(
      0,
      std::as_writable_bytes(std::span(beginning.data(), beginning.size()))));
  std::optional<int64_t> declared;
  if (EndsWithAnyCase(path, ".npy")) {
    STOWAGE_ASSIGN_OR_RETURN(const NpyHeader header,
                             ReadNpyHeader(beginning, path));
    constexpr std::array<std::pair<std::string_view, int>, 4> kTypes = {
        {{"<u2", 2}, {"<u4", 4}, {"<i4", 4}, {"<i8", 8}}};
    const auto type = std::ranges::find(
        kTypes, header.type, &std::pair<std::string_view, int>::first);
    if (type == kTypes.end() || header.shape.rank() != 1) {
      return file.file.Fail(StrCat("is an array of ", Quoted(header.type), " ",
                                   header.shape.ToString(),
                                   "; tokens are of rank 1, of <u2, <u4, <i4 "
                                   "or <i8"));
    }
    file.format = StrCat("NumPy's ", header.type);
    file.begin = static_cast<Bytes>(header.begin);
    file.width = type->second;
    declared = header.shape[0];
  } else if (beginning.size() >= static_cast<size_t>(kHeaderBytes)) {
    std::array<int32_t, 3> header = {};
    std::memcpy(header.data(), beginning.data(), sizeof(header));
    for (const LlmCFormat& format : kLlmC) {
      if (header[0] != format.magic) continue;
      if (header[1] != format.version) {
        return file.file.Fail(StrCat("is llm.c's format ", header[0],
                                     " of version ", header[1], "; expected ",
                                     format.version));
      }
      file.format = StrCat("llm.c's u", 8 * format.width);
      file.begin = kHeaderBytes;
      file.width = format.width;
      declared = header[2];
    }
  }
  if (file.begin == 0 && IsText(beginning)) {
    return file.file.Fail(
        "is a text, which would be read as tokens of two bytes each; give it "
        "another name than *.bin");
  }
  const Bytes bytes = file.file.size() - file.begin;
  if (bytes % file.width != 0) {
    return file.file.Fail(StrCat("has ", bytes, " bytes of tokens of ",
                                 file.width, " bytes each (", file.format,
                                 "), which is no whole number"));
  }
  file.tokens = bytes / file.width;
  if (declared && *declared != file.tokens) {
    return file.file.Fail(StrCat("says that it has ", *declared,
                                 " tokens, and has ", file.tokens));
  }
  files_.push_back(std::move(file));
  return {};
}

Status TokenShards::Split(const std::vector<bool>& is_held_out,
                          const std::string& path) {
  for (size_t i = 0; i < files_.size(); ++i) {
    (is_held_out[i] ? held_out_ : train_)
        .push_back({.file = i, .tokens = files_[i].tokens});
  }
  if (train_.empty()) {
    return InvalidArgumentError("[data] all ", files_.size(),
                                " files of tokens in ", Quoted(path),
                                " are called as held-out ones are; rename "
                                "those to train on");
  }
  if (!held_out_.empty()) return {};
  Part& last = train_.back();
  const int64_t held_out = last.tokens / 10;
  last.tokens -= held_out;
  held_out_.push_back(
      {.file = last.file, .begin = last.tokens, .tokens = held_out});
  return {};
}

std::string TokenShards::Describe() const {
  std::vector<std::string> formats;
  for (const File& file : files_) {
    if (std::ranges::find(formats, file.format) == formats.end()) {
      formats.push_back(file.format);
    }
  }
  std::string names;
  for (const std::string& format : formats) {
    names += StrCat(names.empty() ? "" : ", ", format);
  }
  return StrCat(files_.size(), files_.size() == 1 ? " file" : " files",
                " of tokens (", names, "): ", TokensOf(train_),
                " to train on, ", TokensOf(held_out_), " held out");
}

Result<uint64_t> TokenShards::Digest() const {
  constexpr Bytes kEnd = 1 << 20;
  uint64_t digest = 0;
  std::string bytes;
  for (const File& file : files_) {
    const Bytes size = file.file.size();
    digest = Xxh64(
        StrCat(std::filesystem::path(file.file.path()).filename().string(), " ",
               size),
        digest);
    bytes.resize(static_cast<size_t>(std::min(size, kEnd)));
    const std::span to(bytes.data(), bytes.size());
    for (const Bytes begin : {Bytes{0}, std::max<Bytes>(0, size - kEnd)}) {
      STOWAGE_RETURN_IF_ERROR(
          file.file.ReadAt(begin, std::as_writable_bytes(to)));
      digest = Xxh64(bytes, digest);
    }
  }
  return digest;
}

int64_t TokenShards::CountPlaces(std::span<const Part> parts, int64_t size) {
  int64_t places = 0;
  for (const Part& part : parts) {
    places += std::max<int64_t>(0, part.tokens - size + 1);
  }
  return places;
}

TokenShards::Part TokenShards::Place(std::span<const Part> parts, int64_t size,
                                     int64_t index) {
  for (const Part& part : parts) {
    const int64_t places = std::max<int64_t>(0, part.tokens - size + 1);
    if (index < places) {
      return {.file = part.file, .begin = part.begin + index, .tokens = size};
    }
    index -= places;
  }
  STOWAGE_CHECK(false);  // index is out of range
}

int64_t TokenShards::CountWindows(std::span<const Part> parts, int64_t size) {
  int64_t windows = 0;
  for (const Part& part : parts) {
    windows += std::max<int64_t>(0, part.tokens - 1) / (size - 1);
  }
  return windows;
}

TokenShards::Part TokenShards::Window(std::span<const Part> parts, int64_t size,
                                      int64_t index) {
  for (const Part& part : parts) {
    const int64_t windows = std::max<int64_t>(0, part.tokens - 1) / (size - 1);
    if (index < windows) {
      return {.file = part.file,
              .begin = part.begin + index * (size - 1),
              .tokens = size};
    }
    index -= windows;
  }
  STOWAGE_CHECK(false);  // index is out of range
}

Status TokenShards::Read(const Part& part, std::span<int32_t> to) const {
  STOWAGE_CHECK(std::ssize(to) == part.tokens);
  const File& file = files_[part.file];
  std::array<std::byte, 4096> bytes;
  const int64_t at_a_time = std::ssize(bytes) / file.width;
  for (int64_t done = 0; done < part.tokens; done += at_a_time) {
    const int64_t count = std::min(at_a_time, part.tokens - done);
    const auto read =
        std::span(bytes).first(static_cast<size_t>(count * file.width));
    STOWAGE_RETURN_IF_ERROR(
        file.file.ReadAt(file.begin + (part.begin + done) * file.width, read));
    for (int64_t i = 0; i < count; ++i) {
      uint64_t token = 0;  // little-endian; a negative one is too large
      std::memcpy(&token, read.data() + i * file.width,
                  static_cast<size_t>(file.width));
      if (token >= static_cast<uint64_t>(vocabulary_)) {
        return file.file.Fail(
            StrCat("has token ", token, " at position ", part.begin + done + i,
                   "; the model's vocabulary is ", vocabulary_));
      }
      to[static_cast<size_t>(done + i)] = static_cast<int32_t>(token);
    }
  }
  return {};
}

}  // namespace stowage

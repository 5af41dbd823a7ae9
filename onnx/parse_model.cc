#include "onnx/parse_model.h"

#include <google/protobuf/io/zero_copy_stream.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/strings.h"

namespace stowage::onnx {
namespace {

// The most that protobuf reads and writes.
constexpr size_t kMaxBytes = 2'147'483'647;
// Exporters' models take 2 to 8 times their file, less where weights are within; nodes
// with names of few letters take 15 times theirs.
constexpr uint64_t kMaxTimes = 32;
constexpr uint64_t kBeside = uint64_t{1} << 20;
constexpr uint64_t kMaxMessages = uint64_t{1} << 30;
// The memory is compared with the limit once in so many bytes.
constexpr size_t kStride = 4096;

// The bytes of a file, which end early where `arena` has grown beyond `limit`.
class LimitedStream final : public google::protobuf::io::ZeroCopyInputStream {
 public:
  LimitedStream(std::string_view bytes, const google::protobuf::Arena& arena,
                uint64_t limit)
      : bytes_(bytes), arena_(arena), limit_(limit) {}

  bool exceeded() const { return arena_.SpaceAllocated() > limit_; }

  bool Next(const void** data, int* size) override {
    if (at_ == bytes_.size() || exceeded()) return false;
    const size_t count = std::min(bytes_.size() - at_, kStride);
    *data = bytes_.data() + at_;
    *size = static_cast<int>(count);
    at_ += count;
    return true;
  }
  void BackUp(int count) override { at_ -= static_cast<size_t>(count); }
  bool Skip(int count) override {
    const size_t left = bytes_.size() - at_;
    at_ += std::min(left, static_cast<size_t>(count));
    return static_cast<size_t>(count) <= left;
  }
  int64_t ByteCount() const override { return static_cast<int64_t>(at_); }

 private:
  const std::string_view bytes_;
  const google::protobuf::Arena& arena_;
  const uint64_t limit_;
  size_t at_ = 0;
};

Error Wrong(const std::string& path, size_t size, std::string_view what) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[onnx] ", Quoted(path), ", ", size, " bytes, ", what)};
}

}  // namespace

Result<pb::ModelProto*> ParseModel(std::string_view bytes,
                                   const std::string& path,
                                   google::protobuf::Arena* arena) {
  const uint64_t limit =
      std::min(kBeside + kMaxTimes * bytes.size(), kMaxMessages);
  LimitedStream stream(bytes, *arena, limit);
  pb::ModelProto* const model = pb::ModelProto::default_instance().New(arena);
  const bool is_whole =
      bytes.size() <= kMaxBytes && model->ParseFromZeroCopyStream(&stream);
  if (stream.exceeded()) {
    return Wrong(path, bytes.size(),
                 StrCat("holds messages that take more than ", limit,
                        " bytes of memory; expected at most that of an ONNX "
                        "model of this size"));
  }
  if (!is_whole) {
    return Wrong(path, bytes.size(), "is no ONNX file or ends early");
  }
  return model;
}

}  // namespace stowage::onnx

#ifndef STOWAGE_RUNTIME_HOST_FILE_H_
#define STOWAGE_RUNTIME_HOST_FILE_H_

// Host memory in a file: the disk tier of offload. A plan gives the values that
// it keeps outside the arena offsets in host memory (planner/plan.h); here an offset is a
// position in a file, and `reload` and `offload` read and write there.
//
// The file is fully allocated when it is created, so that a full disk is an error before
// the first step, and has no name, so that it disappears with the process. It is scratch,
// never a checkpoint. Each block of 4 KiB has a digest (XXH64), which every read checks.
//
// Programs address host memory by pointers. Those of a file are reserved, inaccessible
// addresses: an access that bypasses this class is a fault at once, not a wrong number.
//
//   Result<std::unique_ptr<HostFile>> file = HostFile::Create("/scratch", 1 << 30, 256);
//   if (!(*file)->Write((*file)->base() + 4096, bytes)) return (*file)->failure();

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace stowage {

/// For one thread at a time. Only Create allocates or throws.
class HostFile {
 public:
  /// A file of `bytes` zeros in `folder`, its addresses at a multiple of `alignment`, a
  /// power of two. Errors kIo name the folder, the bytes and the system's reason, of a
  /// full disk with the bytes that are free.
  static Result<std::unique_ptr<HostFile>> Create(const std::string& folder,
                                                  Bytes bytes, Bytes alignment);
  ~HostFile();
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;

  /// The address of the first byte.
  std::byte* base() const { return base_; }
  bool Contains(const std::byte* at) const {
    return at >= base_ && at < base_ + bytes_;
  }
  /// True if the folder is in memory (tmpfs), so that a file there saves none.
  bool is_in_memory() const { return is_in_memory_; }

  // Copies to and from the bytes at address `at`; false once any has failed.
  // Precondition: the bytes are in the file.
  bool Write(const std::byte* at, std::span<const std::byte> from) noexcept;
  bool Read(const std::byte* at, std::span<std::byte> to) noexcept;
  bool Fill(const std::byte* at, Bytes bytes, uint8_t value) noexcept;

  /// The reason of the first copy that failed.
  std::string failure() const;

 private:
  static constexpr Bytes kBlock = Bytes{4} << 10;

  HostFile(int descriptor, std::string folder, Bytes bytes);
  Status Allocate(Bytes alignment);

  bool ReadWhole(Bytes at, std::span<std::byte> to) noexcept;
  bool WriteWhole(Bytes at, std::span<const std::byte> from) noexcept;
  bool ReadBlocks(Bytes at, std::span<std::byte> to) noexcept;
  bool Check(Bytes at, std::span<const std::byte> block) noexcept;
  bool Fail(const char* doing, Bytes at, int error) noexcept;

  int descriptor_;
  std::string folder_;
  Bytes bytes_;
  bool is_in_memory_ = false;
  void* reserved_ = nullptr;  // addresses
  size_t reserved_bytes_ = 0;
  std::byte* base_ = nullptr;
  std::vector<uint64_t> digests_;  // per block
  std::vector<std::byte> block_;   // scratch for partial blocks

  // The first failure, without text, since copies must not allocate.
  const char* doing_ = nullptr;
  Bytes failed_at_ = 0;
  int error_ = 0;  // errno; 0: the digest differs
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_HOST_FILE_H_

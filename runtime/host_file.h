#ifndef STOWAGE_RUNTIME_HOST_FILE_H_
#define STOWAGE_RUNTIME_HOST_FILE_H_

// Provides host memory in a file, which is the disk tier of offload. A plan assigns offsets in
// host memory to the values that it keeps outside the arena (planner/plan.h). Here, an offset
// is a position in a file, and `reload` and `offload` read and write the file.
//
// The file is fully allocated when it is created, so a full disk is an error before the first
// step. The file has no name, so it disappears with the process. Each block of 4 KiB has a digest
// (XXH64), which every read checks.
//
// Programs address host memory with pointers. The pointers into a file are reserved, inaccessible
// addresses. An access that bypasses this class therefore causes a fault and cannot read a wrong
// number.
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

/// Only one thread at a time may use a HostFile. Only Create allocates or throws.
class HostFile {
 public:
  /// Creates a file of `bytes` zeros, rounded up to whole blocks, in `folder`. Requires
  /// `bytes >= 1`. The addresses begin at a multiple of `alignment`, which must be a power of two.
  /// Returns kIo if the file cannot be created or allocated. The message names the folder and the
  /// system's reason. If the allocation fails, the message also contains the file's size and the
  /// free bytes of the disk. Returns kDevice if the addresses cannot be reserved.
  static Result<std::unique_ptr<HostFile>> Create(const std::string& folder,
                                                  Bytes bytes, Bytes alignment);
  ~HostFile();
  HostFile(const HostFile&) = delete;
  HostFile& operator=(const HostFile&) = delete;

  /// Returns the address of the first byte.
  std::byte* base() const { return base_; }
  bool Contains(const std::byte* at) const {
    return at >= base_ && at < base_ + bytes_;
  }
  /// Returns whether the folder is in RAM (tmpfs or ramfs), where a file saves no memory.
  bool is_in_memory() const { return is_in_memory_; }

  // These functions write, read or fill the bytes at address `at`. All bytes must be in the file.
  // They return false if this call or an earlier call has failed.
  bool Write(const std::byte* at, std::span<const std::byte> from) noexcept;
  bool Read(const std::byte* at, std::span<std::byte> to) noexcept;
  bool Fill(const std::byte* at, Bytes bytes, uint8_t value) noexcept;

  /// Returns the reason of the first failure, or an empty string if no call has failed.
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
  void* reserved_ = nullptr;  // The reserved addresses.
  size_t reserved_bytes_ = 0;
  std::byte* base_ = nullptr;
  std::vector<uint64_t> digests_;  // The digest of each block.
  std::vector<std::byte> block_;   // Scratch for partial blocks.

  // The first failure. It is stored without text because copies must not allocate.
  const char* doing_ = nullptr;
  Bytes failed_at_ = 0;
  int error_ = 0;  // errno, or 0 if a digest differs.
};

}  // namespace stowage

#endif  // STOWAGE_RUNTIME_HOST_FILE_H_

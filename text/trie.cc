#include "text/trie.h"

#include <algorithm>
#include <cstddef>

namespace stowage::text {

Trie::Trie(std::vector<Entry> entries) {
  std::ranges::stable_sort(entries, {}, &Entry::first);
  // The entries that go through a node, in whose order nodes are.
  struct Range {
    size_t begin, end;
  };
  std::vector<Range> ranges = {{0, entries.size()}};
  nodes_.emplace_back();
  size_t level_end = 1, depth = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (i == level_end) {
      level_end = nodes_.size();
      ++depth;
    }
    size_t at = ranges[i].begin;
    while (at < ranges[i].end && entries[at].first.size() == depth) {
      nodes_[i].id = entries[at++].second;
    }
    nodes_[i].children = static_cast<uint32_t>(nodes_.size());
    while (at < ranges[i].end) {
      const char byte = entries[at].first[depth];
      const size_t begin = at;
      while (at < ranges[i].end && entries[at].first[depth] == byte) ++at;
      ranges.push_back({begin, at});
      nodes_.push_back({.byte = static_cast<unsigned char>(byte)});
      ++nodes_[i].count;
    }
  }
}

uint32_t Trie::Child(uint32_t node, unsigned char byte) const {
  const auto begin = nodes_.begin() + nodes_[node].children;
  const auto end = begin + nodes_[node].count;
  const auto child = std::lower_bound(
      begin, end, byte,
      [](const Node& a, unsigned char b) { return a.byte < b; });
  if (child == end || child->byte != byte) return kNone;
  return static_cast<uint32_t>(child - nodes_.begin());
}

int32_t Trie::Find(std::string_view text) const {
  uint32_t node = kRoot;
  for (const char c : text) {
    node = Child(node, static_cast<unsigned char>(c));
    if (node == kNone) return -1;
  }
  return Id(node);
}

}  // namespace stowage::text

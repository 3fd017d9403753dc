#include "cli/kubernetes/tar_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"

namespace millstream::cli {
namespace {

constexpr size_t kBlock = 512;

void Put(std::array<char, kBlock>* header, size_t at, std::string_view text) {
  std::memcpy(header->data() + at, text.data(), text.size());
}

}  // namespace

void TarWriter::Add(std::string_view path, std::string_view content) {
  std::array<char, kBlock> header{};
  Put(&header, 0, path.substr(0, 99));
  Put(&header, 100, "0000600");  // mode; then user and group
  Put(&header, 108, "0000000");
  Put(&header, 116, "0000000");
  Put(&header, 124, absl::StrFormat("%011o", content.size()));
  Put(&header, 136, absl::StrFormat("%011o", mtime_));
  Put(&header, 148, "        ");  // the checksum is made over blanks in its place
  Put(&header, 156, "0");         // a file
  Put(&header, 257, std::string_view("ustar\00000", 8));
  const unsigned sum = std::accumulate(header.begin(), header.end(), 0u,
                                       [](unsigned all, char c) { return all + static_cast<unsigned char>(c); });
  Put(&header, 148, absl::StrFormat("%06o", sum));
  header[154] = '\0';
  bytes_.append(header.data(), header.size());
  bytes_.append(content);
  bytes_.append((kBlock - content.size() % kBlock) % kBlock, '\0');
}

std::string TarWriter::Finish() {
  bytes_.append(2 * kBlock, '\0');
  return std::exchange(bytes_, {});
}

}  // namespace millstream::cli

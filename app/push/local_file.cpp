#include "app/push/local_file.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/files/file.h"
#include "engine/files/hash.h"

namespace ft::hub {
namespace {

[[noreturn]] void fail_changed(const LocalFile& file) {
  throw UserError(Exit::input,
                  str(printable(file.path),
                      ": has changed since this push began; run it again when nothing writes the "
                      "folder"));
}

void add_all(Hasher& hash, const LocalFile& file, const Hashed& progress) {
  const HttpBody body = contents_of(file);
  std::vector<char> piece(std::size_t{1} << 20);
  for (std::int64_t at = 0; at < body.size;) {
    const std::int64_t bytes = std::min(body.size - at, std::ssize(piece));
    body.read(at, piece.data(), bytes);
    hash.add({piece.data(), static_cast<std::size_t>(bytes)});
    at += bytes;
    if (progress) progress(bytes);
  }
}

}  // namespace

LocalFile made_file(std::string path, std::string text, std::string note) {
  const std::int64_t size = std::ssize(text);
  return {.path = std::move(path), .size = size, .made = std::move(text), .note = std::move(note)};
}

HttpBody contents_of(const LocalFile& file) {
  if (file.made) return text_body(*file.made);
  const auto open = std::make_shared<const InputFile>(file.source.string());
  if (!(open->state() == file.state)) fail_changed(file);
  // A descriptor of its own tells at the end if the file was written to meanwhile.
  return {file.size, [open, file](std::int64_t at, char* to, std::int64_t bytes) {
            open->read(at, to, bytes);
            if (at + bytes == file.size && !(InputFile(file.source.string()).state() == file.state))
              fail_changed(file);
          }};
}

HttpBody part_of(HttpBody whole, std::int64_t at, std::int64_t bytes) {
  return {bytes, [whole = std::move(whole), at](std::int64_t offset, char* to, std::int64_t count) {
            whole.read(at + offset, to, count);
          }};
}

std::string beginning_of(const LocalFile& file, std::int64_t most) {
  const HttpBody body = contents_of(file);
  std::string text(static_cast<std::size_t>(std::min(most, file.size)), '\0');
  if (!text.empty()) body.read(0, text.data(), std::ssize(text));
  return text;
}

std::string sha256_of(const LocalFile& file, const Hashed& progress) {
  Hasher hash;
  add_all(hash, file, progress);
  return hash.hex();
}

std::string git_hash_of(const LocalFile& file) {
  Hasher hash(Hasher::Kind::sha1);
  hash.add("blob " + std::to_string(file.size) + std::string(1, '\0'));
  add_all(hash, file, {});
  return hash.hex();
}

}  // namespace ft::hub

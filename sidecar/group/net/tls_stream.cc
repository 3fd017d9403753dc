#include "sidecar/group/net/tls_stream.h"

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/strings.h"

namespace millstream::group {
namespace {

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Freer<SSL_free>>;
using Memory = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

// The newest entry of OpenSSL's error queue, which is emptied.
std::string OpensslError() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  if (code == 0) return "unknown reason";
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? StrCat("OpenSSL error ", code) : reason;
}

Memory MemoryOf(const std::string& text) { return Memory(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

// An encrypted key would make OpenSSL ask at the terminal.
int NoPassword(char*, int, int, void*) { return -1; }

Certificate NextCertificate(BIO* bio) { return Certificate(PEM_read_bio_X509(bio, nullptr, NoPassword, nullptr)); }

absl::Status Trust(SSL_CTX* context, const std::string& ca_pem) {
  if (ca_pem.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) == 1) return absl::OkStatus();
    return absl::FailedPreconditionError(StrCat("TLS: the system's certificates: ", OpensslError()));
  }
  const Memory bio = MemoryOf(ca_pem);
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  int count = 0;
  while (const Certificate certificate = NextCertificate(bio.get())) {
    if (X509_STORE_add_cert(store, certificate.get()) == 1) ++count;
  }
  const std::string reason = OpensslError();
  if (count > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(StrCat("TLS: kafka.tls' CA has no certificate in PEM form: ", reason));
}

absl::Status Present(SSL_CTX* context, const kafka::TlsAccess& access) {
  if (access.certificate_pem.empty()) return absl::OkStatus();
  const Memory bio = MemoryOf(access.certificate_pem);
  const Certificate own = NextCertificate(bio.get());
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) {
    return absl::FailedPreconditionError(
        StrCat("TLS: the client certificate is not a certificate in PEM form: ", OpensslError()));
  }
  while (Certificate chained = NextCertificate(bio.get())) {
    if (SSL_CTX_add0_chain_cert(context, chained.get()) == 1) static_cast<void>(chained.release());
  }
  ERR_clear_error();
  const Memory key_bio = MemoryOf(access.key_pem);
  const PrivateKey key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr) {
    return absl::FailedPreconditionError(
        StrCat("TLS: the client's key is not an unencrypted private key in PEM form: ", OpensslError()));
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return absl::FailedPreconditionError(
        StrCat("TLS: the client's key does not belong to its certificate: ", OpensslError()));
  }
  return absl::OkStatus();
}

absl::StatusOr<Context> NewContext(const kafka::TlsAccess& access) {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_client_method()));
  MS_CHECK(context != nullptr);
  MS_CHECK(SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  MS_RETURN_IF_ERROR(Trust(context.get(), access.ca_pem));
  MS_RETURN_IF_ERROR(Present(context.get(), access));
  return context;
}

bool IsIpAddress(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 || inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

// Name or address goes into the check of the certificate; a name also into the greeting (SNI).
absl::Status ExpectHost(SSL* session, const std::string& host) {
  const bool is_ip = IsIpAddress(host);
  if (!is_ip) MS_CHECK(SSL_set_tlsext_host_name(session, host.c_str()) == 1);
  X509_VERIFY_PARAM* check = SSL_get0_param(session);
  X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const int set = is_ip ? X509_VERIFY_PARAM_set1_ip_asc(check, host.c_str())
                        : X509_VERIFY_PARAM_set1_host(check, host.data(), host.size());
  if (set == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(StrCat("TLS: '", host, "' is not a host's name"));
}

// OpenSSL works on memory; the bytes travel over the stream below, which has deadlines and raises no signals.
class TlsStream : public Stream {
 public:
  TlsStream(std::unique_ptr<Stream> under, Context context)
      : under_(std::move(under)),
        context_(std::move(context)),
        session_(SSL_new(context_.get())),
        incoming_(BIO_new(BIO_s_mem())),
        outgoing_(BIO_new(BIO_s_mem())) {
    MS_CHECK(session_ != nullptr && incoming_ != nullptr && outgoing_ != nullptr);
    SSL_set_bio(session_.get(), incoming_, outgoing_);  // which now owns both
    SSL_set_connect_state(session_.get());
  }

  absl::Status Handshake(const std::string& host, const IoLimit& limit) {
    MS_RETURN_IF_ERROR(ExpectHost(session_.get(), host));
    while (true) {
      ERR_clear_error();
      const int done = SSL_do_handshake(session_.get());
      const int error = SSL_get_error(session_.get(), done);
      const std::string reason = done == 1 || error == SSL_ERROR_WANT_READ ? "" : HandshakeError();
      MS_RETURN_IF_ERROR(Flush(limit));  // an alert that says why, too
      if (done == 1) return absl::OkStatus();
      if (error != SSL_ERROR_WANT_READ) return absl::FailedPreconditionError(StrCat("TLS: ", reason));
      MS_RETURN_IF_ERROR(Fill(limit, "the broker hung up in the middle of the TLS handshake: is it a TLS listener?"));
    }
  }

  absl::Status WriteAll(std::string_view bytes, const IoLimit& limit) override {
    while (!bytes.empty()) {
      ERR_clear_error();
      size_t taken = 0;
      if (SSL_write_ex(session_.get(), bytes.data(), bytes.size(), &taken) != 1) {
        return absl::UnavailableError(StrCat("TLS: ", OpensslError()));
      }
      bytes.remove_prefix(taken);
      MS_RETURN_IF_ERROR(Flush(limit));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<size_t> ReadSome(char* buffer, size_t size, const IoLimit& limit) override {
    while (true) {
      ERR_clear_error();
      size_t got = 0;
      const int done = SSL_read_ex(session_.get(), buffer, size, &got);
      if (done == 1) return got;
      switch (SSL_get_error(session_.get(), done)) {
        case SSL_ERROR_ZERO_RETURN:
          return 0;
        case SSL_ERROR_WANT_READ:
          break;
        // TLS 1.3: a client certificate is judged after the handshake; the alert comes with the first answer.
        default:
          return absl::FailedPreconditionError(StrCat("TLS: ", OpensslError()));
      }
      MS_RETURN_IF_ERROR(Flush(limit));
      MS_RETURN_IF_ERROR(Fill(limit, "the broker closed the connection"));
    }
  }

  bool Stale() const override { return SSL_pending(session_.get()) > 0 || under_->Stale(); }

 private:
  std::string HandshakeError() const {
    const long verdict = SSL_get_verify_result(session_.get());
    const std::string reason = OpensslError();
    if (verdict == X509_V_OK) return reason;
    return StrCat("the broker's certificate is refused: ", X509_verify_cert_error_string(verdict));
  }

  absl::Status Flush(const IoLimit& limit) {
    std::string bytes(BIO_ctrl_pending(outgoing_), '\0');
    if (bytes.empty()) return absl::OkStatus();
    MS_CHECK(BIO_read(outgoing_, bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size()));
    return under_->WriteAll(bytes, limit);
  }

  absl::Status Fill(const IoLimit& limit, std::string_view at_end) {
    MS_ASSIGN_OR_RETURN(const size_t got, under_->ReadSome(buffer_.data(), buffer_.size(), limit));
    if (got == 0) return absl::UnavailableError(std::string(at_end));
    MS_CHECK(BIO_write(incoming_, buffer_.data(), static_cast<int>(got)) == static_cast<int>(got));
    return absl::OkStatus();
  }

  const std::unique_ptr<Stream> under_;
  const Context context_;
  const Session session_;
  BIO* const incoming_;
  BIO* const outgoing_;
  std::vector<char> buffer_ = std::vector<char>(16 << 10);  // a TLS record
};

}  // namespace

absl::StatusOr<std::unique_ptr<Stream>> StartTls(std::unique_ptr<Stream> under, const kafka::TlsAccess& access,
                                                 const std::string& host, const IoLimit& limit) {
  MS_ASSIGN_OR_RETURN(Context context, NewContext(access));
  auto stream = std::make_unique<TlsStream>(std::move(under), std::move(context));
  MS_RETURN_IF_ERROR(stream->Handshake(host, limit));
  return std::unique_ptr<Stream>(std::move(stream));
}

}  // namespace millstream::group

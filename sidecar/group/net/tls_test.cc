// TLS against a server with certificates made here: whom the client trusts, and whom it shows itself to.
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <thread>

#include "common/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sidecar/group/net/tcp_stream.h"
#include "sidecar/group/net/tls_stream.h"
#include "sidecar/group/testing/loopback_server.h"

namespace millstream::group {
namespace {

using ::testing::HasSubstr;

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;

struct Identity {
  Key key{EVP_EC_gen("P-256")};
  Certificate certificate{X509_new()};

  std::string CertificatePem() const {
    return Pem([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate.get()); });
  }
  std::string KeyPem() const {
    return Pem(
        [&](BIO* bio) { return PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  }

 private:
  template <typename Write>
  static std::string Pem(Write write) {
    std::unique_ptr<BIO, Freer<BIO_free>> bio(BIO_new(BIO_s_mem()));
    MS_CHECK(write(bio.get()) == 1);
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return std::string(data, static_cast<size_t>(size));
  }
};

// Signed by `issuer`, or by itself. `names` as OpenSSL writes them: "DNS:a,IP:1.2.3.4"; empty: an authority.
Identity Issue(const std::string& common_name, const std::string& names, const Identity* issuer, long seconds = 3600) {
  Identity made;
  X509* certificate = made.certificate.get();
  static long serial = 1;
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -7200);
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds);
  X509_set_pubkey(certificate, made.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  const Identity& by = issuer == nullptr ? made : *issuer;
  X509_set_issuer_name(certificate, X509_get_subject_name(by.certificate.get()));
  const auto extend = [certificate](int what, const std::string& value) {
    std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, what, value.c_str()));
    MS_CHECK(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1);
  };
  if (names.empty()) {
    extend(NID_basic_constraints, "critical,CA:TRUE");
  } else {
    extend(NID_subject_alt_name, names);
  }
  MS_CHECK(X509_sign(certificate, by.key.get(), EVP_sha256()) > 0);
  return made;
}

// Shakes hands and sends back what it is sent. With `clients`, asks for a certificate of that authority.
std::function<void(int)> EchoTls(const Identity& own, const Identity* clients = nullptr) {
  return [&own, clients](int fd) {
    std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>> context(SSL_CTX_new(TLS_server_method()));
    MS_CHECK(SSL_CTX_use_certificate(context.get(), own.certificate.get()) == 1 &&
             SSL_CTX_use_PrivateKey(context.get(), own.key.get()) == 1);
    if (clients != nullptr) {
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), clients->certificate.get());
      SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    std::unique_ptr<SSL, Freer<SSL_free>> session(SSL_new(context.get()));
    SSL_set_fd(session.get(), fd);
    char buffer[4096];
    if (SSL_accept(session.get()) == 1) {
      for (int got; (got = SSL_read(session.get(), buffer, sizeof(buffer))) > 0;) SSL_write(session.get(), buffer, got);
      SSL_shutdown(session.get());
    }
    ERR_clear_error();
    shutdown(fd, SHUT_WR);
    while (recv(fd, buffer, sizeof(buffer), 0) > 0) {  // else a reset could overtake the alert
    }
  };
}

class TlsTest : public ::testing::Test {
 protected:
  // OpenSSL's server side writes with write(): a client that has gone away must not end the test's process.
  TlsTest() { signal(SIGPIPE, SIG_IGN); }

  // A word there and back.
  absl::Status Talk(const LoopbackServer& server, const std::string& host, const kafka::TlsAccess& access) {
    const IoLimit limit = IoLimit::In(absl::Seconds(20), nullptr);
    MS_ASSIGN_OR_RETURN(auto tcp, ConnectTcp(server.address(), limit));
    MS_ASSIGN_OR_RETURN(const auto stream, StartTls(std::move(tcp), access, host, limit));
    const std::string word(100'000, 'w');
    MS_RETURN_IF_ERROR(stream->WriteAll(word.substr(0, 5), limit));
    std::string back(5, '\0');
    for (size_t at = 0; at < back.size();) {
      MS_ASSIGN_OR_RETURN(const size_t got, stream->ReadSome(back.data() + at, back.size() - at, limit));
      if (got == 0) return absl::UnavailableError("ended");
      at += got;
    }
    EXPECT_EQ(back, "wwwww");
    return absl::OkStatus();
  }
  kafka::TlsAccess Trusting(const Identity& authority) {
    kafka::TlsAccess access;
    access.ca_pem = "a comment before it\n" + authority.CertificatePem();
    return access;
  }

  const Identity authority_ = Issue("authority", "", nullptr);
  const Identity broker_ = Issue("broker", "DNS:broker.test,DNS:*.wild.test,IP:127.0.0.1", &authority_);
};

TEST_F(TlsTest, TheCertificateMustNameTheHost) {
  LoopbackServer server(EchoTls(broker_));
  for (const std::string host : {"broker.test", "a.wild.test", "127.0.0.1"}) {
    EXPECT_EQ(Talk(server, host, Trusting(authority_)), absl::OkStatus()) << host;
  }
  for (const std::string host : {"broker", "other.test", "wild.test", "a.b.wild.test", "127.0.0.2", "::1"}) {
    const absl::Status status = Talk(server, host, Trusting(authority_));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << host << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("mismatch"));
  }
}

TEST_F(TlsTest, OnlyTheGivenAuthorityIsTrustedAndOnlyInTime) {
  const Identity other = Issue("authority", "", nullptr);
  LoopbackServer server(EchoTls(broker_));
  EXPECT_TRUE(absl::IsFailedPrecondition(Talk(server, "broker.test", Trusting(other))));
  EXPECT_TRUE(absl::IsFailedPrecondition(Talk(server, "broker.test", kafka::TlsAccess())));
  const Identity old = Issue("broker", "DNS:broker.test", &authority_, -60);
  LoopbackServer expired(EchoTls(old));
  EXPECT_THAT(std::string(Talk(expired, "broker.test", Trusting(authority_)).message()), HasSubstr("expired"));
}

TEST_F(TlsTest, AServerThatAsksForACertificateGetsIt) {
  const Identity client = Issue("client", "DNS:client", &authority_);
  LoopbackServer server(EchoTls(broker_, &authority_));
  kafka::TlsAccess access = Trusting(authority_);
  absl::Status status = Talk(server, "broker.test", access);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("certificate required"));
  access.certificate_pem = client.CertificatePem();
  access.key_pem = client.KeyPem();
  EXPECT_EQ(Talk(server, "broker.test", access), absl::OkStatus());
  access.key_pem = broker_.KeyPem();
  status = Talk(server, "broker.test", access);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not belong"));
}

TEST_F(TlsTest, APeerThatDoesNotSpeakTlsIsNamed) {
  LoopbackServer plain([](int fd) {
    char buffer[64];
    static_cast<void>(recv(fd, buffer, sizeof(buffer), 0));
    static_cast<void>(send(fd, "no TLS here", 11, MSG_NOSIGNAL));
  });
  EXPECT_TRUE(absl::IsFailedPrecondition(Talk(plain, "broker.test", Trusting(authority_))));
  LoopbackServer closing([](int fd) { shutdown(fd, SHUT_RDWR); });
  EXPECT_FALSE(Talk(closing, "broker.test", Trusting(authority_)).ok());
}

}  // namespace
}  // namespace millstream::group

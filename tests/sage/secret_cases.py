"""Texts with and without secrets. All are made up, and put together here so that no scanner takes this file for a leak."""

from __future__ import annotations

from typing import NamedTuple

WORD, HEX, DIGITS = "a1B2", "0a1b2c3d", "1234567890"
BASE64 = "q8Zt" * 21 + "w=" + "="


class Case(NamedTuple):
    name: str
    text: str
    secret: str  # the part that must go; empty where the text must stay as it is


def case(name: str, before: str, secret: str, after: str = "") -> Case:
    return Case(name, before + secret + after, secret)


SHAPED = [
    case("OpenAI", "use ", "sk" + "-" + WORD * 8),
    case("OpenAI, lower case", "", "sk" + "-" + "abcdefghijklmnopqrstuvwxyz"),
    case("Stripe, words", "", "sk" + "_live_" + "abcdefghij_klmnop"),
    case("OpenAI project", "", "sk" + "-proj-" + WORD * 8),
    case("Anthropic", "key: ", "sk" + "-ant-api03-" + "aB3_" * 8),
    case("Stripe", "", "sk" + "_live_" + WORD * 6),
    case("Groq", "", "gs" + "k_" + WORD * 13),
    case("GitHub", "", "gh" + "p_" + "A1b2" * 9),
    case("GitHub, fine-grained", "", "github" + "_pat_" + "A1b2" * 9),
    case("GitLab", "", "glp" + "at-" + WORD * 5),
    case("AWS key id", "id ", "AK" + "IA" + "ABCD" * 4, " of us"),
    case("Google", "", "AI" + "za" + WORD * 9),
    case("Google OAuth secret", "", "GOC" + "SPX-" + WORD * 7),
    case("Google OAuth token", "", "ya" + "29." + WORD * 8),
    case("Slack", "", "xo" + "xb-" + "1234-" * 4 + "abcd"),
    case("Slack webhook", "https://hooks.slack.com/services/", "T0" + "AB12CD" + "/B0" + "AB12CD" + "/" + WORD * 6),
    case("Discord webhook", "https://discord.com/api/webhooks/", DIGITS * 2 + "/" + WORD * 16),
    case("Hugging Face", "", "h" + "f_" + WORD * 8),
    case("npm", "", "np" + "m_" + WORD * 9),
    case("PyPI", "", "py" + "pi-" + "AgEIcHlwaS5vcmc" + WORD * 20),
    case("SendGrid", "mail with ", "S" + "G." + WORD * 5 + "ab." + WORD * 10 + "abc"),
    case("Mailgun", "", "ke" + "y-" + HEX * 4),
    case("Mailchimp", "", HEX * 4 + "-us" + "12"),
    case("Twilio", "", "S" + "K" + HEX * 4),
    case("Databricks", "", "da" + "pi" + HEX * 4),
    case("Square", "", "sq0" + "atp-" + WORD * 6),
    case("Shopify", "", "shp" + "at_" + HEX * 4),
    case("Vault", "", "hv" + "s." + WORD * 7),
    case("Azure AD", "", "abc" + "8Q" + "~" + WORD * 9),
    case("Telegram", "", DIGITS[:9] + ":" + "AA" + WORD * 9),
    case("DigitalOcean", "", "dop" + "_v1_" + HEX * 8),
    case("web token", "", "ey" + "J" + "hbGciOi" * 2 + "." + "eyJzdWIi" * 2 + "." + "SflKxwRJ"),
    case("private key", "", "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIE\nabc\n-----END RSA " + "PRIVATE KEY-----"),
    case("PGP", "", "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\nlQOY\n-----END PGP " + "PRIVATE KEY BLOCK-----"),
]
NAMED = [
    case("AWS secret", "aws_secret_access" + "_key=", "wJal" + WORD * 9),
    case("AWS secret, spaces", "aws_secret_access" + "_key = ", "wJal" + WORD * 9),
    case("AWS session", "export AWS_SESSION" + "_TOKEN=", "IQoJ" + WORD * 20),
    case("DB_PASS", "DB_" + "PASS=", "letmein99"),
    case("DB_PASS, short", "DB_" + "PASS=", "s3cret"),
    case("DB_PASSWORD", "DB_" + "PASSWORD=", "letmein"),
    case("MYSQL_PWD", "MYSQL_" + "PWD=", "tr0ub4dor"),
    case("db_pwd", "db_" + "pwd=", "/x9kd/22"),
    case("PGPASSWORD", "PG" + "PASSWORD=", "letmein", " psql"),
    case("pwd", "p" + "wd=", "hunter22"),
    case("PWD that is no folder", "P" + "WD=", "hunter22"),
    case("PWD of a connection", "Server=x;Uid=me;P" + "wd=", "/s3cret", ";"),
    case("PASS", "PA" + "SS: ", "letmein99"),
    case("PASS with a slash", "USER: me PA" + "SS: ", "pa/ssw99"),
    case("refresh token, words", "refresh_" + "token: ", "letmein"),
    case("a value behind a verb", "set_pass" + "word: ", "letmein99"),
    case("a quoted value behind a verb", '"set_pass' + 'word": "', "letmein", '"'),
    case("an argument behind a verb", "reset_pass" + "word=", "letmein"),
    case("token", "curl 'https://x.example/?a=1&to" + "ken=", WORD * 5, "&b=2'"),
    case("token, quoted", "to" + 'ken = "', WORD * 5, '"'),
    case("token, YAML", "to" + "ken: ", WORD * 5),
    case("access token", "access_" + "token=", "opaque-value-1"),
    case("camel case", '"auth' + 'Token": "', "opaque value", '"'),
    case("refresh token", "refresh_" + "token: ", "opaque-value-1"),
    case("Azure storage", "DefaultEndpointsProtocol=https;AccountName=x;Account" + "Key=", BASE64, ";EndpointSuffix=y"),
    case("Azure service bus", "Endpoint=sb://x/;SharedAccess" + "Key=", WORD * 10 + "="),
    case("shared access signature", "https://x.example/c?sv=2024&si" + "g=", WORD * 10, "&se=2026"),
    case("API key in JSON", '{"api_' + 'key": "', "not-so-secret", '"}'),
    case("API key in escaped JSON", '{\\"api' + 'Key\\": \\"', "not-so-secret", '\\"}'),
    case("API key in a header", "X-Api-" + "Key: ", WORD * 6),
    case("client secret", "client_" + "secret: ", "abc~def.ghi"),
    case("secret key", "SECRET_" + 'KEY = "', "django-insecure-" + WORD * 5, '"'),
    case("secrets, plural", "my_secret" + 's = "', "one two three", '"'),
    case("password in YAML", "pass" + "word: ", "letmein"),
    case("password in a dictionary", "config['pass" + "word'] = '", "correct horse", "'"),
    case("password in Ruby", ":pass" + 'word => "', "correct horse", '"'),
    case("private key in a variable", "PRIVATE_" + 'KEY="', "0x" + HEX * 8, '"'),
    case("basic auth", "Authorization: Basic ", "dXNlcjpw" + "YXNz"),
    case("basic auth in JSON", '{"Authorization": "Basic ', "dXNlcjpw" + "YXNz", '"}'),
    case("token auth", "authorization: Token ", WORD * 5),
    case("bare authorization", "Authorization: ", WORD * 5),
    case("bearer", "Authorization: Bearer ", "abcdefghijklmnop"),
    case("bearer, elsewhere", "send Bearer ", "abcdefghijklmnop", " along"),
    case("address", "postgres://", "me:hunter22", "@host/db"),
    case("address without a user", "redis://", ":hunter22", "@host:6379/0"),
    case("curl", "curl -u me:", "hunter22", " https://x.example"),
    case("a flag", "mysql --pass" + "word ", "hunter22", " -h x"),
    case("a flag with =", "login --to" + "ken=", "hunter22xy"),
    case("netrc", "machine x.example login me pass" + "word ", "hunter22"),
]
HARMLESS = [
    Case(name, text, "")
    for name, text in {
        "a file name": "fix the flaky test in tests/test_secret_santa.py",
        "words with hyphens": "ask-the-model about risk-free-rates-of-return-today",
        "an address": "https://example.com/a/b?c=d",
        "a sentence": "the password is checked in login()",
        "a commit": "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "a uuid": "request 123e4567-e89b-12d3-a456-426614174000 failed",
        "an annotation": "def login(user: str, password: str, token: str | None = None) -> bool:",
        "a call": "token = tokenizer.encode(text)",
        "a generator": "for token in tokens: count[token] += 1",
        "a variable": "token = next_token",
        "from the environment": "api_key = os.environ['API_KEY']",
        "from a setting": "password=settings.database.password",
        "in a shell": 'curl -H "X-Api-Key: $API_KEY" https://x.example',
        "in a template": "password: {{ vault_password }}",
        "a placeholder": "DB_PASSWORD=<your password>",
        "stars": "password: ********",
        "none": "secret = None",
        "a type": "token: string",
        "required": "auth: required",
        "counts": "tokens_in=123456 tokens_out=789 max_tokens: 4096",
        "basic": "a basic understanding of authorization",
        "a class": "class TokenError(ValueError): ...",
        "an import": "from secrets import token_hex",
        "a hash": "sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "a bucket": "aws s3 cp s3://bucket/key=value/part-0000.parquet .",
        "a path": "/usr/share/keyrings/docker-archive-keyring.gpg",
        "a public key": "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
        "passing": "3 passed, 1 failed: bypass=true",
        "the working folder": "env: PWD=/home/me/project-2 OLDPWD=/tmp",
        "the working folder of Windows": 'PWD="C:\\Users\\My Name"',
        "the working folder in JSON": '{"PWD": "/home/me", "pwd": "~/x"}',
        "the working folder in a shell": "cd src && PWD=../lib make",
        "a tool": "reset_password: Resets the password of a user",
        "a tool, quoted": '{"get_secret": "Reads a secret from the vault."}',
        "a tool of a server": "mcp__vault__create_api_key: creates a key for a team",
        "a tool in camel case": "verifyAuthToken: Checks who sent it",
        "names of tools": "use sk_learn_pipeline_builder or pk-columns-of-tables",
        "a test that passed": "PASS: tests/unit/test_login2.py::test_3",
        "a setting of fetch": "fetch(url, {credentials: 'same-origin'})",
    }.items()
]
CASES = [*SHAPED, *NAMED, *HARMLESS]

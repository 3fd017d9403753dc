# The Java side: sdk/java built by Maven, whose repository is in the cache folder. Sourced after lib.sh.

# For programs that start often and run for moments.
QUICK_JAVA=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC)

# use_java FOLDER GOAL [MODULE...]: afterwards FOLDER/sdk has a copy of sdk/java with that Maven goal done, and JAVA_CLASSPATH runs its
# examples and conformance worker. MODULES are further Maven projects in FOLDER, built after it and against it, as if it were published.
use_java() {
  local folder=$1 goal=$2 module
  shift 2
  mkdir -p "$folder/sdk"
  cp -r "$ROOT/sdk/java/." "$folder/sdk/"
  rm -rf "$folder/sdk/target"
  {
    echo '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    echo '<groupId>dev.millstream</groupId><artifactId>all</artifactId><version>1</version><packaging>pom</packaging><modules>'
    for module in sdk "$@"; do echo "<module>$module</module>"; done
    echo '</modules></project>'
  } >"$folder/pom.xml"
  # The local repository is asked first: with all that is needed in it, nothing goes over the network.
  mvn --quiet --batch-mode --file "$folder/pom.xml" -Dmaven.repo.local="$MS_CACHE/maven" \
    -Dmillstream.frames="$ROOT/tests/conformance/frames" "$goal" </dev/null
  JAVA_CLASSPATH=$folder/sdk/target/classes:$folder/sdk/target/test-classes:$(cat "$folder/sdk/target/classpath")
}

# use_local_maven FOLDER: afterwards `mvn` has FOLDER as its local repository, filled from the cache: what is installed there leaves nothing
# behind.
use_local_maven() {
  # What `mvn install` needs and no other part asks for.
  [[ -d $MS_CACHE/maven/org/apache/maven/plugins/maven-install-plugin ]] ||
    mvn --quiet --batch-mode -Dmaven.repo.local="$MS_CACHE/maven" org.apache.maven.plugins:maven-install-plugin:3.1.4:help >/dev/null </dev/null || true
  mkdir -p "$MS_CACHE/maven"
  cp -r "$MS_CACHE/maven" "$1"
  export MAVEN_OPTS="${MAVEN_OPTS:-} -Dmaven.repo.local=$1"
}

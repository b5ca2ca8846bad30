export default {
  serverExternalPackages: ['@bureau/framework', '@bureau/server'],
  // Without it, a lock file in a folder above would make that folder the project.
  turbopack: { root: import.meta.dirname },
}
